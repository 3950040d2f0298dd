// A small runner: named tests one after another, and what broke.

import 'dart:async';
import 'dart:io';
import 'dart:typed_data';

import 'package:cenote/cenote.dart';

/// A test that has not ended by then hangs.
const _watchdog = Duration(seconds: 120);

final List<(String, Future<void> Function())> _tests = [];

/// Adds a test.
void test(String name, Future<void> Function() body) => _tests.add((name, body));

/// A database to test on.
enum Database {
  /// Postgres.
  postgres('POSTGRES_URL'),

  /// MySQL.
  mysql('MYSQL_URL'),

  /// MariaDB.
  mariadb('MARIADB_URL');

  const Database(this._variable);

  final String _variable;

  /// Its address, with more settings.
  String url([String settings = '']) => withSettings(variable(_variable), settings);

  /// The address of a user who may see and end others.
  String adminUrl([String settings = '']) =>
      withSettings(variable(_variable.replaceFirst('_URL', '_ADMIN_URL')), settings);

  /// How the parameter with this number, from 1, is written.
  String mark(int number) => this == postgres ? '\$$number' : '?';

  /// A statement that takes so many seconds.
  String sleep(num seconds) => this == postgres ? 'select pg_sleep($seconds)' : 'select sleep($seconds)';

  /// The session's own number.
  String get sessionNumber =>
      this == postgres ? 'select pg_backend_pid() as n' : 'select cast(connection_id() as signed) as n';
}

/// An address with more settings.
String withSettings(String url, String settings) =>
    settings.isEmpty ? url : '$url${url.contains('?') ? '&' : '?'}$settings';

/// A variable of the environment that has to be there.
String variable(String name) =>
    Platform.environment[name] ?? (throw StateError('$name is not set: eval "\$(scripts/servers env)"'));

/// Adds a test for each database.
void testAll(String name, Future<void> Function(Database database) body, [List<Database> databases = Database.values]) {
  for (final database in databases) {
    test('$name [${database.name}]', () => body(database));
  }
}

/// Runs what was added and has the filter in its name; whether all passed.
Future<bool> runTests(String filter) async {
  final failed = <String>[];
  var passed = 0;
  for (final (name, body) in _tests.where((test) => test.$1.contains(filter))) {
    final clock = Stopwatch()..start();
    try {
      await runZonedGuardedFuture(body).timeout(_watchdog, onTimeout: () => throw StateError('it hangs'));
      passed++;
      stdout.writeln('ok      $name (${clock.elapsedMilliseconds} ms)');
    } on Object catch (error, trace) {
      failed.add(name);
      stdout.writeln('FAILED  $name\n        ${'$error\n$trace'.trimRight().replaceAll('\n', '\n        ')}');
    }
  }
  stdout.writeln(
    '${passed + failed.length} tests, ${failed.length} failed${failed.isEmpty ? '' : ': ${failed.join('; ')}'}',
  );
  return failed.isEmpty && passed > 0;
}

/// Runs a test so that an error nobody waits for fails it as well.
Future<void> runZonedGuardedFuture(Future<void> Function() body) {
  final done = Completer<void>();
  runZonedGuarded(
    () async {
      await body();
      if (!done.isCompleted) done.complete();
    },
    (error, trace) {
      if (!done.isCompleted) done.completeError(error, trace);
    },
  );
  return done.future;
}

/// Fails unless both are equal; lists and maps by their members.
void expect(Object? actual, Object? expected, [String what = '']) {
  if (!_equal(actual, expected)) {
    throw StateError('$what: expected ${_show(expected)}, got ${_show(actual)}');
  }
}

/// Fails unless it is so.
void expectThat(bool isSo, String what) {
  if (!isSo) throw StateError('not so: $what');
}

/// Fails unless it fails with an [E]; that.
Future<E> expectThrows<E extends Object>(FutureOr<Object?> Function() body, [String what = '']) async {
  final Object? value;
  try {
    value = await body();
  } on E catch (error) {
    return error;
  } on Object catch (error, trace) {
    throw StateError('$what: expected $E, got $error\n$trace');
  }
  throw StateError('$what: expected $E, got the value ${_show(value)}');
}

/// Waits until it is so.
Future<void> until(FutureOr<bool> Function() isSo, String what) async {
  final clock = Stopwatch()..start();
  while (!await isSo()) {
    if (clock.elapsed > _watchdog ~/ 2) throw StateError('never came about: $what');
    await Future<void>.delayed(const Duration(milliseconds: 5));
  }
}

/// Opens a pool for a test, and closes it.
Future<void> withPool(String url, Future<void> Function(Pool pool) body) async {
  final pool = Pool.open(url);
  try {
    await body(pool);
  } finally {
    await pool.close();
  }
}

/// A table for a test.
Future<void> withTable(
  Pool pool,
  String columns,
  Future<void> Function(String table) body, {
  String name = 'dart_test',
}) async {
  final table = '${name}_${pid}_${_tables++}';
  await pool.execute('create table $table ($columns)');
  try {
    await body(table);
  } finally {
    await pool.execute('drop table $table');
  }
}

int _tables = 0;

bool _equal(Object? a, Object? b) {
  if (a is Map<Object?, Object?> && b is Map<Object?, Object?>) {
    return a.length == b.length && a.keys.every((key) => b.containsKey(key) && _equal(a[key], b[key]));
  }
  if (a is Uint8List != b is Uint8List) return false;
  if (a is List<Object?> && b is List<Object?>) {
    if (a.length != b.length) return false;
    for (var number = 0; number < a.length; number++) {
      if (!_equal(a[number], b[number])) return false;
    }
    return true;
  }
  if (a is double && b is double && a.isNaN && b.isNaN) return true;
  // 1 and 1.0 are two types of a value.
  if (a is num && b is num && a.runtimeType != b.runtimeType) return false;
  return a == b;
}

String _show(Object? value) => value is String ? "'$value'" : '$value (${value.runtimeType})';
