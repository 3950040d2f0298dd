-- Users, database and tables of a new MySQL server, run by its superuser.

create user 'cenote_admin'@'%' identified with caching_sha2_password by 'cenote_admin';
grant all on *.* to 'cenote_admin'@'%' with grant option;
create user 'cenote'@'%' identified with caching_sha2_password by 'cenote';
create database cenote character set utf8mb4;
grant all on cenote.* to 'cenote'@'%';
use cenote;

create table world (id int primary key, randomnumber int not null);
set session cte_max_recursion_depth = 10000;
insert into world
  with recursive numbers (id) as (select 1 union all select id + 1 from numbers where id < 10000)
  select id, 1 + floor(rand() * 10000) from numbers;
analyze table world;
