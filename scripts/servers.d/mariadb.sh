# shellcheck shell=bash disable=SC2154 # part of scripts/servers
# MariaDB. Users, databases and tables: mariadb/init.sql; settings: mariadb/mariadb.cnf.

mariadb_env() {
  local host
  host=127.0.0.1:$(port_of "$1")
  cat <<END
MARIADB_URL mysql://cenote:cenote@$host/cenote
MARIADB_ADMIN_URL mysql://cenote_admin:cenote_admin@$host/cenote
MARIADB_EMPTY_URL mysql://cenote_empty@$host/cenote
MARIADB_LONG_URL mysql://cenote_long:$(mysql_long_password)@$host/cenote
MARIADB_SSL_URL mysql://cenote_ssl:cenote_ssl@$host/cenote
MARIADB_X509_URL mysql://cenote_x509:cenote_x509@$host/cenote
MARIADB_ED25519_URL mysql://cenote_ed25519:cenote_ed25519@$host/cenote
END
  if [ "$(way_of "$1")" = packages ]; then
    echo "MARIADB_SOCKET $(socket_folder "$1")/$1.sock"
  fi
}

# The paths are seen from inside the package folder. Installing looks the machine's own name up, and gives up where nobody
# knows it.
mariadb_template() {
  # shellcheck disable=SC2016
  inside "$(suite_of mariadb)" root sh -ec '
    grep -qsw "$(uname -n)" /etc/hosts || echo "127.0.0.1 localhost $(uname -n)" >>/etc/hosts
    install -d -o mysql -g mysql -m 750 "$0"' "$1"
  # shellcheck disable=SC2016
  inside "$(suite_of mariadb)" mysql sh -ec '
    settings=--defaults-file=/srv/etc/mariadb/mariadb.cnf
    mariadb-install-db $settings --datadir="$0" --auth-root-authentication-method=normal --skip-test-db
    mariadbd $settings --datadir="$0" --skip-networking --socket="$0/init.sock" --pid-file="$0/init.pid" &
    until mariadb-admin --no-defaults --socket="$0/init.sock" --user=root ping; do kill -0 $!; sleep 0.1; done
    mariadb --no-defaults --socket="$0/init.sock" --user=root <"/srv/etc/mariadb/init.sql"
    mariadb-admin --no-defaults --socket="$0/init.sock" --user=root shutdown
    wait $!' "$1" 9>&-
}

mariadb_command() {
  echo "mariadbd --defaults-file=/srv/etc/mariadb/mariadb.cnf --datadir=/srv/data/$1 --bind-address=127.0.0.1 --port=$(port_of "$1")" \
    "--socket=/srv/run/$1.sock --pid-file=/srv/data/$1/mariadbd.pid"
}

mariadb_ready() {
  [ -S "$(root_of "$1")/srv/run/$1.sock" ] &&
    inside "$(suite_of mariadb)" mysql mariadb-admin --no-defaults --socket="/srv/run/$1.sock" --user=cenote --password=cenote ping >/dev/null 2>&1
}
