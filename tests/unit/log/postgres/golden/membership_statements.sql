-- lock
set local lock_timeout = '2s';
lock table "sales"."orders" in share row exclusive mode;

-- lock, odd name
set local lock_timeout = '2s';
lock table "Sales:eu"."100% ""O'Brien""::Orders" in share row exclusive mode;

-- join the first time
INSERT INTO rowtide.identities (source_table_id, identity, identity_index, captured_table_id) VALUES (16385, 'd', NULL, 16385) ON CONFLICT DO NOTHING;
alter table "sales"."orders" replica identity full;
alter publication "Rowtide ""5""" add table only "sales"."orders";
drop publication if exists "Rowtide ""5""_16385";
create publication "Rowtide ""5""_16385" for table only "sales"."orders" with (publish_via_partition_root = true, publish_generated_columns = stored);
INSERT INTO rowtide.table_publications (publication, publication_entry_id) SELECT p.pubname::text, r.oid::bigint
FROM pg_publication_rel r join pg_publication p on p.oid = r.prpubid
WHERE p.pubname = 'Rowtide "5"_16385' ON CONFLICT (publication) DO UPDATE SET publication_entry_id = excluded.publication_entry_id;
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join the first time, odd name
INSERT INTO rowtide.identities (source_table_id, identity, identity_index, captured_table_id) VALUES (16385, 'd', NULL, 16385) ON CONFLICT DO NOTHING;
alter table "Sales:eu"."100% ""O'Brien""::Orders" replica identity full;
alter publication "Rowtide ""5""" add table only "Sales:eu"."100% ""O'Brien""::Orders";
drop publication if exists "Rowtide ""5""_16385";
create publication "Rowtide ""5""_16385" for table only "Sales:eu"."100% ""O'Brien""::Orders" with (publish_via_partition_root = true, publish_generated_columns = stored);
INSERT INTO rowtide.table_publications (publication, publication_entry_id) SELECT p.pubname::text, r.oid::bigint
FROM pg_publication_rel r join pg_publication p on p.oid = r.prpubid
WHERE p.pubname = 'Rowtide "5"_16385' ON CONFLICT (publication) DO UPDATE SET publication_entry_id = excluded.publication_entry_id;
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'Sales:eu', '100% "O''Brien"::Orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join with an index as identity
INSERT INTO rowtide.identities (source_table_id, identity, identity_index, captured_table_id) VALUES (16385, 'i', 'orders_code_key', 16385) ON CONFLICT DO NOTHING;
alter table "sales"."orders" replica identity full;
alter publication "Rowtide ""5""" add table only "sales"."orders";
drop publication if exists "Rowtide ""5""_16385";
create publication "Rowtide ""5""_16385" for table only "sales"."orders" with (publish_via_partition_root = true, publish_generated_columns = stored);
INSERT INTO rowtide.table_publications (publication, publication_entry_id) SELECT p.pubname::text, r.oid::bigint
FROM pg_publication_rel r join pg_publication p on p.oid = r.prpubid
WHERE p.pubname = 'Rowtide "5"_16385' ON CONFLICT (publication) DO UPDATE SET publication_entry_id = excluded.publication_entry_id;
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join beside another member
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join where others dropped its own publication
drop publication if exists "Rowtide ""5""_16385";
create publication "Rowtide ""5""_16385" for table only "sales"."orders" with (publish_via_partition_root = true, publish_generated_columns = stored);
alter publication "Rowtide ""5""_16385" owner to "O'Brien";
INSERT INTO rowtide.table_publications (publication, publication_entry_id) SELECT p.pubname::text, r.oid::bigint
FROM pg_publication_rel r join pg_publication p on p.oid = r.prpubid
WHERE p.pubname = 'Rowtide "5"_16385' ON CONFLICT (publication) DO UPDATE SET publication_entry_id = excluded.publication_entry_id;
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join on PostgreSQL 16
alter publication "Rowtide ""5""" add table only "sales"."orders";
drop publication if exists "Rowtide ""5""_16385";
create publication "Rowtide ""5""_16385" for table only "sales"."orders" with (publish_via_partition_root = true);
INSERT INTO rowtide.table_publications (publication, publication_entry_id) SELECT p.pubname::text, r.oid::bigint
FROM pg_publication_rel r join pg_publication p on p.oid = r.prpubid
WHERE p.pubname = 'Rowtide "5"_16385' ON CONFLICT (publication) DO UPDATE SET publication_entry_id = excluded.publication_entry_id;
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join for keys
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join for keys with an index as identity
INSERT INTO rowtide.identities (source_table_id, identity, identity_index, captured_table_id) VALUES (16385, 'i', 'orders_code_key', 16385) ON CONFLICT DO NOTHING;
alter table "sales"."orders" replica identity default;
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join for keys of an index
INSERT INTO rowtide.identities (source_table_id, identity, identity_index, captured_table_id) VALUES (16385, 'd', NULL, 16385) ON CONFLICT DO NOTHING;
alter table "sales"."orders" replica identity using index "by ""code""";
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join for keys of the index that is the identity
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join for keys beside full images
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- join as a partitioned table
INSERT INTO rowtide.identities (source_table_id, identity, identity_index, captured_table_id) VALUES (16385, 'd', NULL, 16385) ON CONFLICT DO NOTHING;
alter table "sales"."orders" replica identity full;
INSERT INTO rowtide.identities (source_table_id, identity, identity_index, captured_table_id) VALUES (16391, 'n', NULL, 16385) ON CONFLICT DO NOTHING;
alter table "sales"."orders_1" replica identity full;
alter publication "Rowtide ""5""" add table only "sales"."orders";
drop publication if exists "Rowtide ""5""_16385";
create publication "Rowtide ""5""_16385" for table only "sales"."orders" with (publish_via_partition_root = true, publish_generated_columns = stored);
INSERT INTO rowtide.table_publications (publication, publication_entry_id) SELECT p.pubname::text, r.oid::bigint
FROM pg_publication_rel r join pg_publication p on p.oid = r.prpubid
WHERE p.pubname = 'Rowtide "5"_16385' ON CONFLICT (publication) DO UPDATE SET publication_entry_id = excluded.publication_entry_id;
INSERT INTO rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) VALUES ('m1', 'cdc', 'sales_orders', 16385, 'sales', 'orders', (SELECT oid::bigint
FROM pg_publication_rel
WHERE prpubid::bigint = 99 AND prrelid::bigint = 16385));

-- leave
alter publication "Rowtide ""5""" drop table only "sales"."orders";
drop publication if exists "Rowtide ""5""_16385";
DELETE FROM rowtide.table_publications WHERE rowtide.table_publications.publication = 'Rowtide "5"_16385';
alter table "sales"."orders" replica identity default;
UPDATE rowtide.identities SET captured_table_id=rowtide.identities.source_table_id WHERE rowtide.identities.captured_table_id = 16385 AND rowtide.identities.source_table_id IN (SELECT rowtide.members.source_table_id
FROM rowtide.members);
DELETE FROM rowtide.identities WHERE rowtide.identities.captured_table_id = 16385;

-- leave, odd name
alter publication "Rowtide ""5""" drop table only "Sales:eu"."100% ""O'Brien""::Orders";
drop publication if exists "Rowtide ""5""_16385";
DELETE FROM rowtide.table_publications WHERE rowtide.table_publications.publication = 'Rowtide "5"_16385';
alter table "Sales:eu"."100% ""O'Brien""::Orders" replica identity using index k;
UPDATE rowtide.identities SET captured_table_id=rowtide.identities.source_table_id WHERE rowtide.identities.captured_table_id = 16385 AND rowtide.identities.source_table_id IN (SELECT rowtide.members.source_table_id
FROM rowtide.members);
DELETE FROM rowtide.identities WHERE rowtide.identities.captured_table_id = 16385;

-- leave, identity never changed
alter publication "Rowtide ""5""" drop table only "sales"."orders";
drop publication if exists "Rowtide ""5""_16385";
DELETE FROM rowtide.table_publications WHERE rowtide.table_publications.publication = 'Rowtide "5"_16385';
UPDATE rowtide.identities SET captured_table_id=rowtide.identities.source_table_id WHERE rowtide.identities.captured_table_id = 16385 AND rowtide.identities.source_table_id IN (SELECT rowtide.members.source_table_id
FROM rowtide.members);
DELETE FROM rowtide.identities WHERE rowtide.identities.captured_table_id = 16385;

-- leave a dropped table
drop publication if exists "Rowtide ""5""_16385";
DELETE FROM rowtide.table_publications WHERE rowtide.table_publications.publication = 'Rowtide "5"_16385';
alter table "sales"."detached" replica identity nothing;
UPDATE rowtide.identities SET captured_table_id=rowtide.identities.source_table_id WHERE rowtide.identities.captured_table_id = 16385 AND rowtide.identities.source_table_id IN (SELECT rowtide.members.source_table_id
FROM rowtide.members);
DELETE FROM rowtide.identities WHERE rowtide.identities.captured_table_id = 16385;

-- unregister
DELETE FROM rowtide.members WHERE rowtide.members.member_id = 'it''s m1';

-- announce enabled
insert into rowtide.control (kind, content) values ('enable', '{"member_id":"m1","feature":"cdc","name":"sales_orders","source_id":16385,"schema":"sales","table":"orders","columns":["id","it''s 5%: :b\\"],"definition":"{\"role\": null}","column_numbers":[],"computed_numbers":[],"takes_added":false}');

-- announce enabled, odd name
insert into rowtide.control (kind, content) values ('enable', '{"member_id":"m1","feature":"cdc","name":"sales_orders","source_id":16385,"schema":"Sales:eu","table":"100% \"O''Brien\"::Orders","columns":["id","it''s 5%: :b\\"],"definition":"{\"role\": null}","column_numbers":[],"computed_numbers":[],"takes_added":false}');

-- announce disabled
insert into rowtide.control (kind, content) values ('disable', '{"member_id":"it''s m1"}');
