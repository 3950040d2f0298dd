// A program that tests start: small, as it is compiled each time.

import 'dart:io';

import 'package:cenote/cenote.dart';

Future<void> main(List<String> arguments) => runChild(arguments.first, arguments.sublist(1));

/// What a child does.
Future<void> runChild(String name, List<String> arguments) async {
  switch (name) {
    case 'idle':
      final pool = Pool.open(arguments.first);
      final row = await pool.queryOne('select 1 as n');
      stdout.writeln(row.getInt('n'));
    // And no word of closing.
    case 'closed':
      final pool = Pool.open(arguments.first);
      await pool.query('select 1');
      await pool.close();
      stdout.writeln('closed');
    case 'exit':
      final pool = Pool.open(arguments.first);
      final transaction = await pool.begin();
      await transaction.query(arguments[1]);
      for (var number = 0; number < 100; number++) {
        pool.query('select 1').ignore();
      }
      await Future<void>.delayed(Duration.zero);
      stdout.writeln('exits');
      await stdout.flush();
      exit(0);
    case 'library':
      try {
        Cenote.open(path: arguments.firstOrNull);
        stdout.writeln(Cenote.version);
      } on LibraryException catch (error) {
        stdout.writeln('LibraryException: ${error.message}');
      }
  }
}
