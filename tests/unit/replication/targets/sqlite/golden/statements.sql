-- insert
insert into "orders" ("id", "quantity", "note") values (?, ?, ?) -- 0, 1, 2

-- insert, chosen columns
insert into "orders" ("id", "note") values (?, ?) -- 0, 1

-- SCALL update of one column
update "orders" as t set "quantity" = ? where t."id" = ? -- 1, 3

-- SCALL update of all columns
update "orders" as t set "id" = ?, "quantity" = ?, "note" = ? where t."id" = ? -- 0, 1, 2, 3

-- SCALL update of no column
update "orders" as t set "quantity" = t."quantity" where t."id" = ? -- 3

-- SCALL update of no column, nothing but a key
update "pairs" as t set "a" = t."a" where t."b" = ? and t."a" = ? -- 2, 3

-- SCALL update of the key, composite key
update "lines" as t set "of_order" = ? where t."of_order" = ? collate binary and t."line" = ? -- 2, 3, 4

-- SCALL update of the ninth column
update "nine" as t set "col9" = ? where t."col9" = ? -- 8, 9

-- SCALL update, odd names
update """O'Brien""" as t set "it's ""the"" $1" = ?, "100%" = ? where t."it's ""the"" $1" = ? collate binary -- 0, 1, 2

-- MCALL update of one column
update "lines" as t set "quantity" = ? where t."of_order" = ? collate binary and t."line" = ? -- 1, 3, 4

-- CALL update
update "lines" as t set "line" = ?, "quantity" = ?, "of_order" = ? where t."of_order" = ? collate binary and t."line" = ? -- 0, 1, 2, 3, 4

-- SQL update
update "lines" as t set "line" = ?, "quantity" = ?, "of_order" = ? where t."of_order" = ? collate binary and t."line" = ? -- 0, 1, 2, 3, 4

-- XCALL update
update "lines" as t set "line" = ?, "quantity" = ?, "of_order" = ? where t."of_order" = ? collate binary and t."line" = ? -- 3, 4, 5, 2, 0

-- CALL delete
delete from "lines" as t where t."of_order" = ? collate binary and t."line" = ? -- 0, 1

-- SQL delete
delete from "lines" as t where t."of_order" = ? collate binary and t."line" = ? -- 0, 1

-- XCALL delete
delete from "lines" as t where t."of_order" = ? collate binary and t."line" = ? -- 2, 0

-- truncate
delete from """O'Brien""" --
