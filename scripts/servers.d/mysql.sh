# shellcheck shell=bash disable=SC2154 # part of scripts/servers
# MySQL. Users, databases and tables: mysql/init.sql; settings: mysql/mysql.cnf.

mysql_env() {
  local port
  port=$(port_of "$1")
  cat <<END
MYSQL_URL mysql://cenote:cenote@127.0.0.1:$port/cenote
MYSQL_ADMIN_URL mysql://cenote_admin:cenote_admin@127.0.0.1:$port/cenote
END
  if [ "$(way_of "$1")" = packages ]; then
    echo "MYSQL_SOCKET $(socket_folder "$1")/$1.sock"
  fi
}

# The paths are seen from inside the package folder.
mysql_template() {
  inside "$(suite_of mysql)" root install -d -o mysql -g mysql -m 750 "$1"
  # shellcheck disable=SC2016
  inside "$(suite_of mysql)" mysql sh -ec '
    mysqld --defaults-file=/srv/etc/mysql/mysql.cnf --datadir="$0" --initialize-insecure
    mysqld --defaults-file=/srv/etc/mysql/mysql.cnf --datadir="$0" --skip-networking --socket="$0/init.sock" \
      --pid-file="$0/init.pid" --log-error="$0/init.log" --daemonize
    mysql --no-defaults --socket="$0/init.sock" --user=root <"/srv/etc/mysql/init.sql"
    mysqladmin --no-defaults --socket="$0/init.sock" --user=root shutdown
    while test -e "$0/init.pid"; do sleep 0.1; done' "$1" 9>&-
}

mysql_command() {
  echo "mysqld --defaults-file=/srv/etc/mysql/mysql.cnf --datadir=/srv/data/$1 --bind-address=127.0.0.1 --port=$(port_of "$1")" \
    "--socket=/srv/run/$1.sock --pid-file=/srv/data/$1/mysqld.pid"
}

mysql_ready() {
  [ -S "$(root_of "$1")/srv/run/$1.sock" ] &&
    inside "$(suite_of mysql)" mysql mysqladmin --no-defaults --socket="/srv/run/$1.sock" --user=cenote --password=cenote ping >/dev/null 2>&1
}
