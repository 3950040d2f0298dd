-- Users, database and tables of a new MariaDB server, run by its superuser.

create user 'cenote_admin'@'%' identified by 'cenote_admin';
grant all on *.* to 'cenote_admin'@'%' with grant option;
create user 'cenote'@'%' identified by 'cenote';
create database cenote character set utf8mb4;
grant all on cenote.* to 'cenote'@'%';

-- One for each way to log in. The long password has 200 bytes, as many as fit into MySQL's way by RSA.
create user 'cenote_empty'@'%' identified by '';
create user 'cenote_long'@'%' identified by '01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789';
create user 'cenote_ssl'@'%' identified by 'cenote_ssl' require ssl;
create user 'cenote_x509'@'%' identified by 'cenote_x509' require subject '/CN=cenote_cert';
create user 'cenote_ed25519'@'%' identified via ed25519 using password('cenote_ed25519');
grant select on cenote.* to 'cenote_empty'@'%', 'cenote_long'@'%', 'cenote_ssl'@'%', 'cenote_x509'@'%', 'cenote_ed25519'@'%';

use cenote;

create table world (id int primary key, randomnumber int not null);
insert into world select seq, 1 + floor(rand() * 10000) from seq_1_to_10000;
analyze table world;
