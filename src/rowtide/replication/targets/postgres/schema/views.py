"""Views of a PostgreSQL subscriber's own that use a column whose type changes, as a statement. Pure.

The server does not change the type of a column that a view uses. The views are dropped and made again in the same
transaction, with all that is theirs; where something else depends on them the change is refused, and nothing happened.
"""

from __future__ import annotations

from rowtide.databases.postgres.quoting import quote_literal, quote_qualified


def beside_views(table: tuple[str, str], column: str, altering: str) -> str:
    """Return the PL/pgSQL that runs code which changes a column's type, with the views that use the column."""
    return f"{_body(quote_literal(quote_qualified(*table)), quote_literal(column), altering).strip()};"


def _body(table: str, column: str, altering: str) -> str:
    return f"""
declare
    kept jsonb := '[]';
    made jsonb;
    statement text;
begin
    {_FIND.format(table=table, column=column)}
    for made in select one from pg_catalog.jsonb_array_elements(kept) with ordinality e(one, place) order by place desc
    loop
        begin
            execute made ->> 'dropping';
        exception when others then
            {_REFUSE.format(why="it cannot be dropped")}
        end;
    end loop;
    {altering}
    for made in select one from pg_catalog.jsonb_array_elements(kept) with ordinality e(one, place) order by place
    loop
        begin
            execute made ->> 'making';
            {_TAKE_RIGHTS}
            for statement in select pg_catalog.jsonb_array_elements_text(made -> 'completing')
            loop
                execute statement;
            end loop;
        exception when others then
            {_REFUSE.format(why="it cannot be made again")}
        end;
    end loop;
end"""


_REFUSE = """
            if sqlstate in ('55P03', '40P01', '40001', '57014') then
                raise;
            end if;
            raise exception using errcode = '0A000', message = pg_catalog.format(
                '%s uses the column, and {why}: %s; drop it, and create it again after `rowtide replication resume`',
                made ->> 'name', sqlerrm);
"""

_TAKE_RIGHTS = """
            -- Its owner's, and what default privileges have given it.
            if (made ->> 'has_rights')::boolean then
                execute pg_catalog.format('revoke all on %s from %I', made ->> 'quoted', current_user);
            end if;
            for statement in
                select distinct pg_catalog.format(
                    'revoke all on %s from %s', made ->> 'quoted',
                    case grantee when 0 then 'public' else grantee::pg_catalog.regrole::text end)
                from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl)
                where c.oid = (made ->> 'quoted')::pg_catalog.regclass
                    and ((made ->> 'has_rights')::boolean or grantee <> c.relowner)
            loop
                execute statement;
            end loop;
"""

_FIND = """
    with recursive tables as (
        select pg_catalog.to_regclass({table})::oid as oid
        union select i.inhrelid from pg_catalog.pg_inherits i join tables t on i.inhparent = t.oid
    ), users as (
        select r.ev_class as oid, 1 as depth
        from tables t join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attname = {column}
        join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
            and d.refobjid = t.oid and d.refobjsubid = a.attnum
            and d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
        join pg_catalog.pg_rewrite r on r.oid = d.objid and r.ev_class <> t.oid
        union
        select r.ev_class, u.depth + 1
        from users u join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
            and d.refobjid = u.oid and d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
        join pg_catalog.pg_rewrite r on r.oid = d.objid and r.ev_class <> u.oid
    ), views as (
        select c.*, u.depth, pg_catalog.format('%I.%I', n.nspname, c.relname) as quoted,
               case c.relkind when 'm' then 'materialized view' else 'view' end as kind,
               pg_catalog.rtrim(pg_catalog.pg_get_viewdef(c.oid), ';') as query,
               'with (' || (
                   select pg_catalog.string_agg(pg_catalog.format('%I = %L', option_name, option_value), ', ')
                   from pg_catalog.pg_options_to_table(c.reloptions)
               ) || ')' as options
        from (select oid, max(depth) as depth from users group by oid) u
        join pg_catalog.pg_class c using (oid) join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('v', 'm')
    ), completing as (
        select a.attrelid as oid, 1 as step, a.attnum as place, pg_catalog.format(
            'alter view %s alter column %I set default %s', v.quoted, a.attname,
            pg_catalog.pg_get_expr(f.adbin, f.adrelid)) as statement
        from views v join pg_catalog.pg_attribute a on a.attrelid = v.oid
        join pg_catalog.pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
        union all
        select v.oid, 2, a.attnum, pg_catalog.format(
            'alter materialized view %s alter column %I set statistics %s', v.quoted, a.attname, a.attstattarget)
        from views v join pg_catalog.pg_attribute a on a.attrelid = v.oid and a.attnum > 0
        where v.relkind = 'm' and a.attstattarget >= 0
        union all
        select v.oid, 3, i.indexrelid, pg_catalog.pg_get_indexdef(i.indexrelid)
        from views v join pg_catalog.pg_index i on i.indrelid = v.oid
        union all
        select v.oid, 4, i.indexrelid, pg_catalog.format(
            'alter materialized view %s cluster on %I', v.quoted, x.relname)
        from views v join pg_catalog.pg_index i on i.indrelid = v.oid and i.indisclustered
        join pg_catalog.pg_class x on x.oid = i.indexrelid
        union all
        select v.oid, 5, s.oid, pg_catalog.pg_get_statisticsobjdef(s.oid)
        from views v join pg_catalog.pg_statistic_ext s on s.stxrelid = v.oid
        union all
        select v.oid, 6, r.oid, pg_catalog.pg_get_ruledef(r.oid)
        from views v join pg_catalog.pg_rewrite r on r.ev_class = v.oid and r.rulename <> '_RETURN'
        union all
        select v.oid, 7, t.oid, pg_catalog.pg_get_triggerdef(t.oid)
        from views v join pg_catalog.pg_trigger t on t.tgrelid = v.oid and not t.tgisinternal
        union all
        select v.oid, 8, d.objoid, pg_catalog.format(
            'comment on %s is %L',
            case d.classoid
                when 'pg_catalog.pg_rewrite'::pg_catalog.regclass then (
                    select pg_catalog.format('rule %I on %s', r.rulename, v.quoted)
                    from pg_catalog.pg_rewrite r where r.oid = d.objoid)
                when 'pg_catalog.pg_trigger'::pg_catalog.regclass then (
                    select pg_catalog.format('trigger %I on %s', t.tgname, v.quoted)
                    from pg_catalog.pg_trigger t where t.oid = d.objoid)
                when 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass then (
                    select pg_catalog.format('statistics %s.%I', s.stxnamespace::pg_catalog.regnamespace, s.stxname)
                    from pg_catalog.pg_statistic_ext s where s.oid = d.objoid)
                else case
                    when d.objoid <> v.oid then pg_catalog.format('index %s', d.objoid::pg_catalog.regclass)
                    when d.objsubid = 0 then pg_catalog.format('%s %s', v.kind, v.quoted)
                    else (
                        select pg_catalog.format('column %s.%I', v.quoted, a.attname)
                        from pg_catalog.pg_attribute a where a.attrelid = v.oid and a.attnum = d.objsubid)
                end
            end, d.description)
        from views v join pg_catalog.pg_description d on (d.classoid, d.objoid) in (
            select 'pg_catalog.pg_class'::pg_catalog.regclass, v.oid
            union all select 'pg_catalog.pg_class'::pg_catalog.regclass, indexrelid
            from pg_catalog.pg_index where indrelid = v.oid
            union all select 'pg_catalog.pg_rewrite'::pg_catalog.regclass, oid
            from pg_catalog.pg_rewrite where ev_class = v.oid
            union all select 'pg_catalog.pg_trigger'::pg_catalog.regclass, oid
            from pg_catalog.pg_trigger where tgrelid = v.oid
            union all select 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, oid
            from pg_catalog.pg_statistic_ext where stxrelid = v.oid)
        union all
        select v.oid, 9, 0, pg_catalog.format(
            'alter %s %s owner to %I', v.kind, v.quoted, pg_catalog.pg_get_userbyid(v.relowner))
        from views v where pg_catalog.pg_get_userbyid(v.relowner) <> current_user
        union all
        select v.oid, 10, g.place, pg_catalog.format(
            'grant %s on %s to %s%s', g.privilege_type, v.quoted,
            case g.grantee when 0 then 'public' else g.grantee::pg_catalog.regrole::text end,
            case when g.is_grantable then ' with grant option' else '' end)
        from views v, pg_catalog.aclexplode(v.relacl)
            with ordinality g(grantor, grantee, privilege_type, is_grantable, place)
        union all
        select v.oid, 11, g.place, pg_catalog.format(
            'grant %s (%I) on %s to %s%s', g.privilege_type, a.attname, v.quoted,
            case g.grantee when 0 then 'public' else g.grantee::pg_catalog.regrole::text end,
            case when g.is_grantable then ' with grant option' else '' end)
        from views v join pg_catalog.pg_attribute a on a.attrelid = v.oid, pg_catalog.aclexplode(a.attacl)
            with ordinality g(grantor, grantee, privilege_type, is_grantable, place)
        union all
        select v.oid, 12, 0, pg_catalog.format(
            'do %L', 'begin raise exception ''it has security labels, or a rule or trigger that is switched off''; end')
        from views v
        where exists (select from pg_catalog.pg_seclabel l where l.objoid = v.oid)
            or exists (select from pg_catalog.pg_rewrite r where r.ev_class = v.oid and r.ev_enabled <> 'O')
            or exists (select from pg_catalog.pg_trigger t where t.tgrelid = v.oid and t.tgenabled <> 'O')
    )
    select coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
        'name', v.kind || ' ' || v.quoted, 'quoted', v.quoted, 'has_rights', v.relacl is not null,
        'dropping', pg_catalog.format('drop %s %s', v.kind, v.quoted),
        'making', pg_catalog.concat_ws(
            ' ', 'create', v.kind, v.quoted,
            'using ' || (select pg_catalog.quote_ident(amname) from pg_catalog.pg_am m where m.oid = v.relam),
            v.options,
            'tablespace ' || (
                select pg_catalog.quote_ident(spcname) from pg_catalog.pg_tablespace s where s.oid = v.reltablespace),
            'as', v.query,
            case when v.relkind = 'm' then case when v.relispopulated then 'with data' else 'with no data' end end),
        'completing', (
            select coalesce(pg_catalog.jsonb_agg(w.statement order by w.step, w.place), '[]')
            from completing w where w.oid = v.oid)) order by v.depth, v.oid), '[]')
    into kept from views v;
"""
