// Programs as a whole: how they start, and how they end.

import 'dart:convert';
import 'dart:io';

import 'package:cenote/cenote.dart';

import 'harness.dart';

Future<ProcessResult> _child(List<String> arguments, {Map<String, String>? environment, String? folder}) {
  final script = File.fromUri(Platform.script);
  // Compiled, the program is its own script, and does what child.dart does when it is told so.
  final isCompiled = script.absolute.path == File(Platform.resolvedExecutable).absolute.path;
  final own = ['--child', ...arguments];
  final other = [...Platform.executableArguments, '${script.parent.path}/child.dart', ...arguments];
  return Process.run(
    Platform.resolvedExecutable,
    isCompiled ? own : other,
    environment: environment,
    workingDirectory: folder,
  );
}

/// Adds the tests.
void addProcesses() {
  testAll('case 29: a program with an idle pool ends by itself, and one that closed it too', (database) async {
    final idle = await _child(['idle', database.url()]);
    expect((idle.exitCode, idle.stdout, idle.stderr), (0, '1\n', ''));
    final closed = await _child(['closed', database.url()]);
    expect((closed.exitCode, closed.stdout, closed.stderr), (0, 'closed\n', ''));
  });

  testAll('case 30: exit(0) with queries in flight leaves no lock', (database) async {
    await withPool(database.url(), (pool) async {
      await withTable(pool, 'id int primary key', (table) async {
        await pool.execute('insert into $table values (1)');
        final sql = 'select id from $table where id = 1 for update';
        final child = await _child(['exit', database.url(), sql]);
        expect((child.exitCode, child.stdout, child.stderr), (0, 'exits\n', ''));
        await pool.transaction((transaction) => transaction.query(sql));
      });
    });
  });

  test('case 33: a program runs from another folder', () async {
    final child = await _child(['idle', Database.postgres.url()], folder: '/');
    expect((child.exitCode, child.stdout, child.stderr), (0, '1\n', ''));
  });

  test('cases 31 and 33: the library is found by its name, and not finding it is said clearly', () async {
    final missing = await _child(['library', '/no/such/libcenote.so']);
    expectThat(
      '${missing.stdout}'.startsWith('LibraryException: cannot load /no/such/libcenote.so'),
      '${missing.stdout}',
    );
    final wrong = await _child(['library'], environment: {'CENOTE_LIBRARY': '/no/such'});
    expectThat('${wrong.stdout}'.startsWith('LibraryException'), '${wrong.stdout}');
    final other = await _child(['library', 'libc.so.6']);
    expectThat('${other.stdout}'.contains('is no cenote library'), '${other.stdout}');
    final found = await _child(['library']);
    expect(const LineSplitter().convert('${found.stdout}'), [Cenote.version]);
  });
}
