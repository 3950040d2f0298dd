# shellcheck shell=bash disable=SC2154 # part of scripts/servers
# Postgres 18. Users, databases and tables: postgres/init.sql; settings: postgres/postgresql.conf and pg_hba.conf.

postgres_env() {
  local port folder
  port=$(port_of "$1")
  cat <<END
POSTGRES_URL postgres://cenote:cenote@127.0.0.1:$port/cenote
POSTGRES_ADMIN_URL postgres://cenote_admin:cenote_admin@127.0.0.1:$port/cenote
POSTGRES_MD5_URL postgres://cenote_md5:cenote_md5@127.0.0.1:$port/cenote
POSTGRES_CLEARTEXT_URL postgres://cenote_cleartext:cenote_cleartext@127.0.0.1:$port/cenote
POSTGRES_TRUST_URL postgres://cenote_trust@127.0.0.1:$port/cenote
POSTGRES_CERT_URL postgres://cenote_cert@127.0.0.1:$port/cenote
END
  if [ "$(way_of "$1")" = packages ]; then
    folder=$(socket_folder "$1")
    echo "POSTGRES_UNIX_URL postgres://cenote:cenote@/cenote?host=$folder&port=$port"
  fi
}

# The paths are seen from inside the package folder.
postgres_template() {
  # shellcheck disable=SC2016
  inside "$(suite_of postgres)" root sh -ec '
    localedef -i de_DE -f UTF-8 de_DE.UTF-8
    install -d -o postgres -g postgres -m 700 "$0"' "$1"
  inside "$(suite_of postgres)" postgres initdb -D "$1" --username=postgres --encoding=UTF8 --locale-provider=builtin --builtin-locale=C.UTF-8 \
    --auth=reject --no-sync --no-instructions
  # shellcheck disable=SC2016
  inside "$(suite_of postgres)" postgres sh -ec '
    pg_ctl -D "$0" -w -l /dev/null -o "-c config_file=/srv/etc/postgres/postgresql.conf -c listen_addresses= -c unix_socket_directories=$0" start
    psql -X -q -v ON_ERROR_STOP=1 -h "$0" -U postgres -d postgres -f /srv/etc/postgres/init.sql
    pg_ctl -D "$0" -w -m fast stop' "$1" 9>&-
}

postgres_command() {
  echo "postgres -D /srv/data/$1 -c config_file=/srv/etc/postgres/postgresql.conf" \
    "-c listen_addresses=127.0.0.1 -c port=$(port_of "$1") -c unix_socket_directories=/srv/run"
}

# The eighth line of its pid file is the server's own word that it takes connections.
postgres_ready() {
  local ready
  ready=$(sed -n 8p "$(data_of "$1")/postmaster.pid" 2>/dev/null) && [ "${ready// /}" = ready ]
}
