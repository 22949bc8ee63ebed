#!/usr/bin/env bash
# A client of the wire protocol as a stranger would write it, from docs/reference/wire-protocol.md alone: bash, curl,
# sqlite3, gzip and coreutils.
#
#     strangers_client.sh FILE register URL CODE
#     strangers_client.sh FILE begin
#     strangers_client.sh FILE sync
#
# Tables in FILE are the client's own, with what it has to remember of the protocol in tables client_*; other programs
# write rows. It follows no schema changes, and has no identity ranges. Lineages are kept as hexadecimal digits.
set -euo pipefail

file=$1 step=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
type=application/vnd.rowtide+json

sql() { sqlite3 -batch -bail -cmd '.timeout 10000' "$file" "$@"; }
fail() { echo "$1" >&2; exit 1; }

# Answers of the last request are read as JSON at $1.
answered() { sql "select json_extract(readfile('$work/answer'), '\$.$1')"; }

# Send a request, again after a lost answer: ask STEP KEY < BODY
ask() {
    local key=$2 attempt status url
    cat > "$work/body"
    url=$(sql "select url from client")
    {
        echo "Content-Type: $type"
        echo "Rowtide-Client: stranger/1"
        [ -z "$key" ] || echo "Idempotency-Key: $key"
        sql "select 'Authorization: Bearer ' || token from client where token is not null"
    } > "$work/headers"
    for attempt in 1 2 3 4 5 6 7 8; do
        [ "$attempt" = 1 ] || sleep 0.2
        status=$(curl --silent --compressed --max-time 60 --header "@$work/headers" --data-binary "@$work/body" \
            --dump-header "$work/head" --output "$work/answer" --write-out '%{http_code}' "$url/$1") || continue
        case $status in
            200)
                grep -qi "^content-type: $type" "$work/head" && grep -qi '^rowtide-protocol: 1' "$work/head" && return
                fail "no gateway has answered" ;;
            429 | 503) ;;
            *) fail "$status: $(cat "$work/answer")" ;;
        esac
    done
    fail "the gateway does not answer"
}

# A body with a message and batches, both as SQL that makes JSON.
body() { sql "select json_object('protocol', 1, 'message', json($1), 'batches', json(${2:-"'[]'"}), 'is_last', json('true'))"; }

# Expressions of SQL. Three hexadecimal digits are two of base64.
hex_digits=0123456789ABCDEF
base64_digits=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/
pieces() { echo "(select n, substr($1, n * $2 + 1, $2) as piece from client_numbers where n * $2 < length($1) order by n)"; }
value_of() { # of a piece's digits, as a number
    local digits=$1 base=$2 count=$3 place sum=0
    for ((place = 1; place <= count; place++)); do
        sum="($sum * $base + instr('$digits', substr(piece, $place, 1)) - 1)"
    done
    echo "$sum"
}
to_base64() {
    local padded="($1 || substr('0000', 1, (6 - length($1) % 6) % 6))" number
    number=$(value_of "$hex_digits" 16 3)
    echo "(select coalesce(substr(group_concat(substr('$base64_digits', $number / 64 + 1, 1) ||
        substr('$base64_digits', $number % 64 + 1, 1), ''), 1, length($padded) / 3 * 2 - (6 - length($1) % 6) % 6 / 2)
        || substr('==', 1, (6 - length($1) % 6) % 6 / 2), '') from $(pieces "$padded" 3))"
}
from_base64() {
    local filled="replace($1, '=', 'A')" number
    number=$(value_of "$base64_digits" 64 2)
    echo "(select coalesce(substr(group_concat(printf('%03X', $number), ''), 1,
        length($1) / 2 * 3 - 2 * (length($1) - length(replace($1, '=', '')))), '') from $(pieces "$filled" 2))"
}
# A lineage with a node's last change replaced; entries of 10 bytes are in the order of nicknames.
with_entry() {
    echo "(select group_concat(piece, '') from (select piece from $(pieces "$1" 20)
        where substr(piece, 1, 12) <> substr($2, 1, 12) union all select $2 order by 1))"
}
# The last changes of columns, with those of the places that are 1 in a text of marks replaced.
with_columns() {
    echo "(select coalesce(group_concat(piece, ''), '') from (select piece from $(pieces "$1" 24)
        where substr($2, $(value_of_place) + 1, 1) <> '1'
        union all select printf('%04X', n) || $3 from client_numbers where substr($2, n + 1, 1) = '1' order by 1))"
}
value_of_place() { value_of "$hex_digits" 16 4; }
or_marks() { # of two texts of marks
    echo "(select group_concat(case when substr($1, n + 1, 1) = '1' or substr($2, n + 1, 1) = '1' then '1' else '0' end, '')
        from client_numbers where n < length($1))"
}
# A batch has its rows column by column: the digits of rowguids by their places, and the values of each column.
rows_of() { # of a batch, as [[rowguid, place of the version, values], ...]
    echo "(select json_group_array(json_array(
        (select group_concat(substr(g.value, p.key + 1, 1), '') from json_each($1, '\$.rowguids') g), p.value,
        json(iif(json_type($1, '\$.columns') = 'null', 'null', (select json_group_array(
            json_extract(c.value, '\$[' || p.key || ']')) from json_each($1, '\$.columns') c)))))
        from json_each($1, '\$.places') p)"
}
columns_of() { # the reverse, of rows of one table that are all tombstones, or none is
    echo "'places', (select json_group_array(json_extract(r.value, '\$[1]')) from json_each($1) r),
        'rowguids', (select json_group_array(digits) from (
            select group_concat(substr(json_extract(r.value, '\$[0]'), n + 1, 1), '') as digits
            from client_numbers, json_each($1) r where n < 36 group by n order by n)),
        'columns', json(iif(json_type($1, '\$[0][2]') = 'null', 'null', (select json_group_array(json(items)) from (
            select json_group_array(json_extract(r.value, '\$[2][' || n || ']')) as items
            from client_numbers, json_each($1) r where n < json_array_length($1, '\$[0][2]') group by n order by n))))"
}
quoted() { echo "${1//\'/\'\'}"; }
# What stands in a text that printf fills in.
template() { quoted "${1//%/%%}"; }
table="coalesce(nullif(json_extract(definition, '\$.table_in_files'), ''), json_extract(definition, '\$.table'))"
# What a piece of SQL is of each column of an article: %w is its name, %s its type.
each_column() {
    local arguments=
    for ((place = 0; place < ${3:-1}; place++)); do arguments+=", json_extract(value, '\$.name')"; done
    echo "(select group_concat(printf('$1'$arguments), '$2')
        from (select value from json_each(definition, '\$.columns') order by key))"
}

register() {
    sql "
        create table client (
            url text, token text, key text, publication text, hub integer, nickname integer, subid text, state text,
            session integer, sent integer, received integer, schema_version integer, schema_guid text,
            proposed text, owed text, tried integer default 0
        );
        insert into client (url, key) values ('${1//\'/\'\'}', lower(hex(randomblob(16))));
        create table client_articles (nickname integer primary key, place integer, definition text, purged text);
        create table client_versions (
            article integer, rowguid text, lineage text, columns text, primary key (article, rowguid)
        );
        create table client_changes (
            article integer, rowguid text, columns text, is_new integer, is_gone integer, primary key (article, rowguid)
        );
        create table client_uploaded (
            article integer, rowguid text, columns text, is_new integer, is_gone integer, generation integer,
            primary key (article, rowguid)
        );
        create table client_received (place integer primary key, batch text);
        create table client_applying (at text);
        create table client_numbers (n integer primary key);
        insert into client_numbers
            with recursive s (n) as (select 0 union all select n + 1 from s where n < 9999) select n from s;
    "
    body "json_object('code', '${2//\'/\'\'}')" | ask register "$(sql 'select key from client')"
    sql "update client set key = lower(hex(randomblob(16))), token = json_extract(readfile('$work/answer'), '\$.message.token')"
}

begin() {
    body "'{}'" | ask file "$(sql 'select key from client')"
    local name size digest first=$file.first attempt
    name=$(answered message.name) size=$(answered message.size) digest=$(answered message.sha256)
    for attempt in 1 2 3 4 5 6 7 8; do
        [ "$attempt" = 1 ] || sleep 0.2
        # What has come of it stays.
        curl --silent --fail --max-time 60 --header "@$work/headers" --continue-at - --output "$first.gz" \
            "$(sql 'select url from client')/files/$name" || true
        [ ! -f "$first.gz" ] || [ "$(stat -c %s "$first.gz")" -lt "$size" ] || break
    done
    echo "$digest  $first.gz" | sha256sum --quiet --check
    gzip --decompress --force "$first.gz"
    # Statements that make the tables of the client, and note what programs change.
    sqlite3 -batch -bail "$first" > "$work/tables" "
        select printf('create table \"%w\" (%s, rowguid text primary key default (lower(hex(randomblob(4))) || ''-'' ||
            lower(hex(randomblob(2))) || ''-4'' || substr(lower(hex(randomblob(2))), 2) || ''-a'' ||
            substr(lower(hex(randomblob(2))), 2) || ''-'' || lower(hex(randomblob(6)))));', $table,
            (select group_concat(printf('\"%w\" %s', json_extract(value, '\$.name'), json_extract(value, '\$.type_text')), ', ')
                from (select value from json_each(definition, '\$.columns') order by key)))
            || printf('insert into \"%w\" select %s, rowguid from first.\"%w\";',
                $table, $(each_column '"%w"' ', '), $table)
        from sysmerge_stored_articles;
        select printf('create trigger client_%s_%d after %s on \"%w\" when not exists (select 1 from client_applying)
                begin insert into client_changes values (%d, %s.rowguid, %s, %s) on conflict do update set %s; end;',
            event, nickname, event, $table, nickname, image,
            case event when 'update' then $(each_column '(old."%w" is not new."%w")' ' || ' 2)
                else quote(printf('%.*c', json_array_length(definition, '\$.columns'), '0')) end,
            given,
            case event when 'update' then 'columns = ' || '$(quoted "$(or_marks client_changes.columns excluded.columns)")' else then_set end)
        from sysmerge_stored_articles, (
            select 'insert' as event, 'new' as image, '1, 0' as given, 'is_gone = 0' as then_set
            union all select 'update', 'new', '0, 0', '' union all select 'delete', 'old', '0, 1', 'is_gone = 1'
        );
    " 2> "$work/error" || fail "$(cat "$work/error")"
    sql "
        attach '$first' as first;
        begin immediate;
        update client set key = null, (publication, hub, nickname, subid, state, session, sent, received, schema_version,
            schema_guid) = (
            select p.name, p.publisher, r.nickname, s.subid, s.replicastate, s.session, s.sentgen, s.recgen,
                s.schemaversion, s.schemaguid
            from first.sysmerge_stored_publications p, first.MSmerge_replinfo r, first.sysmerge_stored_subscriptions s
            where s.pubid = p.pubid and s.replnickname = p.publisher
        );
        insert into client_articles select nickname, json_extract(definition, '\$.processing_order'), definition,
            hex(purged_lineage) from first.sysmerge_stored_articles;
        insert into client_versions select tablenick, rowguid, hex(lineage), hex(coalesce(colv, ''))
            from first.MSmerge_stored_contents;
        $(cat "$work/tables")
        commit;
    "
    rm -f "$first"
}

# Take what was changed since the last upload for the next one, which has a new number then.
take_changes() {
    sql "
        begin immediate;
        update client set proposed = coalesce(proposed, 'r' || lower(hex(randomblob(16)))),
            tried = case when exists (select 1 from client_changes) then max(sent, tried) + 1 else max(sent, tried) end;
        insert into client_uploaded
            select article, rowguid, columns, is_new, is_gone, (select tried from client) from client_changes where true
            on conflict do update set is_gone = excluded.is_gone, generation = excluded.generation,
                columns = $(or_marks client_uploaded.columns excluded.columns);
        delete from client_changes;
        commit;
    "
}

generation="(select case when exists (select 1 from client_uploaded) then tried else sent end from client)"
own="(select printf('%012X', nickname) from client) || printf('%08X', u.generation)"
versions="from client_uploaded u join client_articles a on a.nickname = u.article
    left join client_versions v on v.article = u.article and v.rowguid = u.rowguid"
marks="case when u.is_new then '' else u.columns end"
lineage="$(with_entry "coalesce(v.lineage, case when u.is_new then '' else a.purged end)" "$own")"
columns="$(with_columns "coalesce(v.columns, '')" "$marks" "$own")"

# Write the batches of an upload: rows parents first, then tombstones children first.
batches() {
    sql "
        create temp table version as select u.article, u.rowguid, u.is_gone, $own as own, $lineage as lineage,
            $columns as columns, json_extract(definition, '\$.column_tracking') as is_tracked $versions;
        create temp table batch (place integer, article integer, versions text, rows text);
        $(sql "select printf('insert into batch select %d, %d,
                json_group_array(json_patch(json_object(''lineage'', $(template "$(to_base64 lineage)"),
                    ''last'', $(template "$(to_base64 own)")), json_patch(
                    iif(is_tracked, json_object(''columns'', $(template "$(to_base64 columns)")), ''{}''),
                    iif(is_gone, ''{\"tombstone\": 1}'', ''{}'')))),
                json_group_array(json_array(version.rowguid, place, iif(is_gone, null, json_array(%s))))
                from (select *, row_number() over () - 1 as place from version where article = %d and is_gone = %d) version
                left join \"%w\" t on t.rowguid = version.rowguid having count(*) > 0;',
                iif(gone, 1000000 - place, place), nickname,
                $(each_column "case typeof(t.\"%w\") when ''null'' then null when ''blob'' then ''\\x'' || lower(hex(t.\"%w\")) else cast(t.\"%w\" as text) end" ', ' 3),
                nickname, gone, $table)
            from client_articles, (select 0 as gone union all select 1) order by gone")
        select json_group_array(json_object('article', article, 'versions', json(versions), $(columns_of batch.rows)))
        from (select * from batch order by place) batch;
    "
}
sync() {
    take_changes
    local since requested='{}' round=0 attempt fingerprint number first
    fingerprint=$(sql "select definition from client_articles order by nickname" | head -c -1 | sha256sum | head -c 32)
    since=$(sql "select sent from client") number=$(sql "select $generation")
    batches > "$work/batches"
    for attempt in 1 2 3 4 5 6 7 8; do
        body "(select json_object('state', json_object('publication', publication, 'subid', subid, 'nickname', nickname,
                'hub', hub, 'state', state, 'session', session, 'sent', sent, 'received', received,
                'schema_version', schema_version, 'schema_guid', schema_guid, 'fingerprint', '$fingerprint',
                'proposed', proposed),
            'upload', json_object('since', $since, 'generation', $number, 'requested', json('$requested'), 'round', $round),
            'acknowledgement', json(owed)) from client)" "readfile('$work/batches')" | ask sync ""
        [ "$(answered message.definitions)$(answered message.must_follow)" = 0 ] || fail "the hub's schema has changed"
        if [ -z "$(answered message.result)" ]; then
            since=$(answered message.terms.since) requested=$(answered message.terms.wanted)
        elif [ "$(answered message.result.wanted)" != '{}' ]; then
            requested=$(answered message.result.wanted) round=$((round + 1)) since=$number
        else
            take_download
            return
        fi
    done
    fail "the hub wants more and more"
}

# Write what the hub has sent and what is left of it, and note what it has of ours, in one transaction.
take_download() {
    cp "$work/answer" "$work/sync"
    sql "delete from client_received; insert into client_received
        select key, json_set(one.value, '\$.rows', json($(rows_of one.value)))
        from json_each(readfile('$work/answer'), '\$.batches') one"
    local expected count
    expected=$(answered message.download.batches)
    while count=$(sql "select count(*) from client_received") && [ "$count" -lt "$expected" ]; do
        body "(select json_object('session', json_extract(s, '\$.message.terms.session'),
            'generation', json_extract(s, '\$.message.download.generation'), 'first', $count)
            from (select readfile('$work/sync') as s))" | ask more ""
        sql "insert into client_received select key + $count, json_set(one.value, '\$.rows', json($(rows_of one.value)))
            from json_each(readfile('$work/answer'), '\$.batches') one"
    done
    local said="json_extract(readfile('$work/sync'), '\$.message"
    sql "
        begin immediate;
        insert into client_applying values (datetime());
        insert or replace into client_versions select u.article, u.rowguid, $lineage, $columns $versions;
        delete from client_uploaded;
        create temp table received as
            select json_extract(batch, '\$.article') as article, json_extract(r.value, '\$[0]') as rowguid,
                json_extract(batch, '\$.versions[' || json_extract(r.value, '\$[1]') || ']') as version
            from client_received, json_each(batch, '\$.rows') r order by place, r.key;
        -- What a program has changed since the upload is uploaded next time, and the hub decides.
        delete from received where exists (
            select 1 from client_changes c where c.article = received.article and c.rowguid = received.rowguid
        );
        $(sql "select printf('delete from \"%w\" where rowguid in (select rowguid from received where rowguid = %Q);',
                $table, json_extract(r.value, '\$[0]')) || iif(json_extract(r.value, '\$[2]') is null, '',
            printf('insert into \"%w\" select %s, rowguid from received where rowguid = %Q;', $table, (
                select group_concat(case
                    when c.value is null then 'null'
                    when json_extract(definition, '\$.columns[' || c.key || '].type_text') = 'bytea'
                        then 'X' || quote(substr(c.value, 3))
                    else quote(c.value) end, ', ')
                from json_each(r.value, '\$[2]') c), json_extract(r.value, '\$[0]')))
            from client_received, json_each(batch, '\$.rows') r
            join client_articles on nickname = json_extract(batch, '\$.article') order by client_received.place, r.key")
        insert or replace into client_versions select article, rowguid, $(from_base64 "json_extract(version, '\$.lineage')"),
            $(from_base64 "coalesce(json_extract(version, '\$.columns'), '')") from received;
        delete from client_applying;
        update client set state = $said.terms.mark'), session = $said.terms.session'), sent = $said.result.generation'),
            received = $said.download.generation'), proposed = null, owed = json_object('session', $said.terms.session'),
            'mark', $said.terms.mark'), 'received', $said.download.generation'),
            'moves', json($said.download.moves')));
        commit;
    "
    # Moves of rows are acknowledged at once.
    if [ "$(sql "select json_extract(owed, '\$.moves') from client")" != '{}' ]; then
        body "(select owed from client)" | ask acknowledge ""
        sql "update client set owed = null"
    fi
}
case $step in
    register) register "$3" "$4" ;;
    begin) begin ;;
    sync) sync ;;
    *) fail "there is no $step" ;;
esac
