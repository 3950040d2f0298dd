-- Users, database and tables of a new MySQL server, run by its superuser.

create user 'cenote_admin'@'%' identified with caching_sha2_password by 'cenote_admin';
grant all on *.* to 'cenote_admin'@'%' with grant option;
create user 'cenote'@'%' identified with caching_sha2_password by 'cenote';
create database cenote character set utf8mb4;
grant all on cenote.* to 'cenote'@'%';

-- One for each way to log in. The long password has 200 bytes, as many as fit into the way by RSA.
create user 'cenote_empty'@'%' identified with caching_sha2_password by '';
create user 'cenote_long'@'%' identified with caching_sha2_password by '01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789';
create user 'cenote_sha256'@'%' identified with sha256_password by 'cenote_sha256';
create user 'cenote_ssl'@'%' identified with caching_sha2_password by 'cenote_ssl' require ssl;
create user 'cenote_x509'@'%' identified with caching_sha2_password by 'cenote_x509' require subject '/CN=cenote_cert';
grant select on cenote.* to 'cenote_empty'@'%', 'cenote_long'@'%', 'cenote_sha256'@'%', 'cenote_ssl'@'%', 'cenote_x509'@'%';

-- MySQL 9 has this plugin no more.
select if(count(*), 'create user \'cenote_native\'@\'%\' identified with mysql_native_password by \'cenote_native\'', 'do 0'),
    if(count(*), 'grant select on cenote.* to \'cenote_native\'@\'%\'', 'do 0')
  into @make_user, @grant_to_user
  from information_schema.plugins where plugin_name = 'mysql_native_password' and plugin_status = 'ACTIVE';
prepare make_user from @make_user;
execute make_user;
prepare grant_to_user from @grant_to_user;
execute grant_to_user;

use cenote;

create table world (id int primary key, randomnumber int not null);
set session cte_max_recursion_depth = 10000;
insert into world
  with recursive numbers (id) as (select 1 union all select id + 1 from numbers where id < 10000)
  select id, 1 + floor(rand() * 10000) from numbers;
analyze table world;
