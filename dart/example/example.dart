// A shop in a few lines: `dart run example/example.dart postgres://user:password@host/database`.
//
// Run from the repository: `scripts/dart run dart/example/example.dart "$POSTGRES_URL"`. It makes a table of its own, and drops it.

import 'dart:convert';
import 'dart:io';
import 'dart:isolate';

import 'package:cenote/cenote.dart';

Future<void> main(List<String> arguments) async {
  final url = arguments.firstOrNull ?? Platform.environment['POSTGRES_URL'];
  if (url == null) {
    stderr.writeln('usage: example.dart postgres://user:password@host/database');
    exitCode = 64;
    return;
  }
  final pool = Pool.open(url);
  await pool.execute('drop table if exists example_item');
  await pool.execute('create table example_item (id int primary key, name text, stock int, seen timestamptz)');

  // Many statements of one turn leave in one write.
  const insert = r'insert into example_item values ($1, $2, $3, $4)';
  await Future.wait([
    for (final (id, name) in ['anchor', 'buoy', 'compass'].indexed)
      pool.execute(insert, parameters: [id, name, 10, DateTime.now()]),
  ]);

  // All of it, or nothing.
  await pool.transaction((transaction) async {
    final row = await transaction.queryOne(r'select stock from example_item where id = $1 for update', parameters: [1]);
    final left = row.getInt('stock') - 3;
    await transaction.execute(r'update example_item set stock = $1 where id = $2', parameters: [left, 1]);
  });

  // Rows are views, and JSON is written straight from what the server sent.
  final items = await pool.query('select id, name, stock from example_item order by id');
  for (final item in items) {
    stdout.writeln('${item.getInt('id')} ${item.getString('name')}: ${item['stock']}');
  }
  stdout.writeln(utf8.decode(items.toJsonBytes()));

  // Errors say whose fault it was.
  try {
    await pool.execute(insert, parameters: [1, 'again', 0, null]);
  } on ServerException catch (error) {
    stdout.writeln('${error.sqlState} ${error.constraint}');
  }

  // Another isolate opens the same pool by the same URL, and has the same connections.
  stdout.writeln('${await Isolate.run(_counting(url))} items, ${pool.stats.connections} connections at most');

  await pool.execute('drop table example_item');
  await pool.close();
}

Future<int> Function() _counting(String url) => () async {
  final pool = Pool.open(url);
  final row = await pool.queryOne('select count(*) as n from example_item');
  await pool.close();
  return row.getInt('n');
};
