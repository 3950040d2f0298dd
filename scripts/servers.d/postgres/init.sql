-- Users, database and tables of a new Postgres server, run by its superuser.

create role cenote_admin superuser login password 'cenote_admin';
create role cenote login password 'cenote';
create role cenote_cleartext login password 'cenote_cleartext' in role cenote;
create role cenote_trust login in role cenote;
create role cenote_cert login in role cenote;
set password_encryption = 'md5';
create role cenote_md5 login password 'cenote_md5' in role cenote;
reset password_encryption;

-- A test asks for messages in another language.
grant set on parameter lc_messages to cenote;

create database cenote owner cenote;
\connect cenote
set role cenote;

create table world (id int primary key, randomnumber int not null);
insert into world select id, 1 + floor(random() * 10000)::int from generate_series(1, 10000) as id;
reset role;
vacuum analyze;
