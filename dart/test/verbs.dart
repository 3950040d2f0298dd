// Every verb, on every database.

import 'package:cenote/cenote.dart';

import 'harness.dart';

/// Adds the tests.
void addVerbs() {
  testAll('query, queryOne, queryOpt and execute', (database) async {
    await withPool(database.url(), (pool) async {
      final one = database.mark(1);
      final row = await pool.queryOne('select id, randomnumber from world where id = $one', parameters: [42]);
      expect(row.getInt('id'), 42);
      expect(row[0], 42);
      expect(row.columns.map((column) => column.name).toList(), ['id', 'randomnumber']);
      final rows = await pool.query('select id from world where id <= $one order by id', parameters: [3]);
      expect([for (final row in rows) row.getInt('id')], [1, 2, 3]);
      expect(await pool.queryOpt('select id from world where id = $one', parameters: [-1]), null);
      expect((await pool.queryOpt('select id from world where id = $one', parameters: [7]))?.getInt(0), 7);
      expect((await expectThrows<RowCountException>(() => pool.queryOne('select id from world where id < 0'))).rows, 0);
      expect((await expectThrows<RowCountException>(() => pool.queryOpt('select id from world where id < 3'))).rows, 2);
      await withTable(pool, 'id int primary key, name varchar(20)', (table) async {
        final two = database.mark(2);
        final insert = 'insert into $table values ($one, $two), (2, null)';
        expect(await pool.execute(insert, parameters: [1, 'one'], idempotent: true), 2);
        final update = await pool.query('update $table set name = $one', parameters: ['x']);
        expect((update.rowsAffected, update.length, update.columns.length), (2, 0, 0));
        expect(update.toMaps(), <Object?>[]);
      });
    });
  });

  testAll('a thousand queries of one turn get their own rows', (database) async {
    await withPool(database.url(), (pool) async {
      final sql = 'select id from world where id = ${database.mark(1)}';
      final rows = await Future.wait([
        for (var id = 1; id <= 1000; id++) pool.queryOne(sql, parameters: [id]),
      ]);
      for (final (number, row) in rows.indexed) {
        expect(row.getInt('id'), number + 1);
      }
      expect(Cenote.underWay, 0);
    });
  });

  testAll('a refused query fails alone among those it left with', (database) async {
    await withPool(database.url(), (pool) async {
      final good = pool.queryOne('select 1 as n');
      final bad = expectThrows<ServerException>(() => pool.query('select nothing_of_the_kind'));
      final unfit = expectThrows<StatementException>(() => pool.query('select 1', parameters: [Object()]));
      final closed = Pool.open(database.url());
      await closed.close();
      final refused = expectThrows<ClosedException>(() => closed.query('select 1'));
      final alsoGood = pool.queryOne('select 2 as n');
      expect(((await good).getInt('n'), (await alsoGood).getInt('n')), (1, 2));
      await bad;
      await unfit;
      await refused;
    });
  });

  testAll('a batch happens whole, or not at all', (database) async {
    await withPool(database.url(), (pool) async {
      await withTable(pool, 'id int primary key', (table) async {
        final insert = 'insert into $table values (${database.mark(1)})';
        final results = await pool.batch([
          Statement(insert, const [1]),
          Statement(insert, const [2]),
          Statement('select id from $table order by id'),
        ]);
        expect([for (final result in results) result.rowsAffected].take(2).toList(), [1, 1]);
        expect(results[2].toMaps(), [
          {'id': 1},
          {'id': 2},
        ]);
        final error = await expectThrows<ServerException>(
          () => pool.batch([
            Statement(insert, const [3]),
            Statement(insert, const [1]),
          ]),
        );
        expect(error.batchIndex, 1);
        expect((await pool.queryOne('select count(*) as n from $table')).getInt('n'), 2);
        expect(await pool.batch(const []), <Object?>[]);
      });
    });
  });

  testAll('a lease has a session of its own', (database) async {
    await withPool(database.url('pool_size=2'), (pool) async {
      final isPostgres = database == Database.postgres;
      final set = isPostgres ? "set application_name = 'leased'" : "set @mine = 'leased'";
      final show = isPostgres ? "select current_setting('application_name') as v" : 'select @mine as v';
      final refused = await expectThrows<StatementException>(() => pool.execute(set));
      expectThat(refused.message.contains('lease'), 'names the lease: ${refused.message}');
      final lease = await pool.lease();
      await lease.execute(set);
      expect((await lease.queryOne(show)).getString('v'), 'leased');
      expect(pool.stats.leases, 1);
      final last = lease.queryOne(show);
      lease
        ..release()
        ..release();
      expectThat(lease.isEnded, 'it has ended');
      expect((await last).getString('v'), 'leased', 'what was asked for before the release');
      await expectThrows<ClosedException>(() => lease.query(show));
      await until(() => pool.stats.leases == 0, 'the lease is back');
      final next = await pool.lease();
      expectThat((await next.queryOne(show))['v'] != 'leased', 'it was set back');
      next.release();
    });
  });

  testAll('stats count', (database) async {
    await withPool(database.url('pool_size=3'), (pool) async {
      final before = pool.stats;
      await Future.wait([for (var number = 0; number < 50; number++) pool.query('select 1')]);
      final after = pool.stats;
      expect(after.connectionsMax, 3);
      expectThat(after.replies >= before.replies + 50, '${after.replies} replies');
      expectThat(after.connections <= 3 && after.connects >= 1, '${after.connections} connections');
      expectThat(after.writes > before.writes && after.bytesRead > before.bytesRead, 'bytes move');
    });
  });

  testAll('closing ends one open, and not others', (database) async {
    final one = Pool.open(database.url('pool_size=2'));
    final other = Pool.open(database.url('pool_size=2'));
    await one.queryOne('select 5 as n');
    final last = one.queryOne('select 5 as n');
    await one.close();
    expect((await last).getInt('n'), 5, 'asked for before it was closed');
    await one.close();
    await expectThrows<ClosedException>(() => one.query('select 1'));
    await expectThrows<ClosedException>(one.begin);
    await expectThrows<ClosedException>(one.lease);
    await expectThrows<ClosedException>(() => one.batch(const [Statement('select 1')]));
    await expectThrows<ClosedException>(() => one.stats);
    expect((await other.queryOne('select 6 as n')).getInt('n'), 6);
    await other.close();
  });
}
