# shellcheck shell=bash disable=SC2154 # part of scripts/servers
# MySQL. Users, databases and tables: mysql/init.sql; settings: mysql/mysql.cnf.

mysql_env() {
  local host
  host=127.0.0.1:$(port_of "$1")
  cat <<END
MYSQL_URL mysql://cenote:cenote@$host/cenote
MYSQL_ADMIN_URL mysql://cenote_admin:cenote_admin@$host/cenote
MYSQL_EMPTY_URL mysql://cenote_empty@$host/cenote
MYSQL_LONG_URL mysql://cenote_long:$(mysql_long_password)@$host/cenote
MYSQL_SHA256_URL mysql://cenote_sha256:cenote_sha256@$host/cenote
MYSQL_SSL_URL mysql://cenote_ssl:cenote_ssl@$host/cenote
MYSQL_X509_URL mysql://cenote_x509:cenote_x509@$host/cenote
END
  if [ "$(way_of "$1")" = packages ]; then
    echo "MYSQL_SOCKET $(socket_folder "$1")/$1.sock"
    # What a client encrypts a password with where there is no TLS: the server made the key with its data folder.
    echo "MYSQL_PUBLIC_KEY $(data_of "$1")/public_key.pem"
  else
    echo "MYSQL_NATIVE_URL mysql://cenote_native:cenote_native@$host/cenote"
  fi
}

mysql_long_password() { printf '0123456789%.0s' {1..20}; }

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
