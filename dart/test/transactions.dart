// Transactions: what is committed, and what is not.

import 'package:cenote/cenote.dart';

import 'harness.dart';

/// Adds the tests.
void addTransactions() {
  testAll('a transaction is committed when its work returns, and rolled back when it throws', (database) async {
    await withPool(database.url(), (pool) async {
      await withTable(pool, 'id int primary key', (table) async {
        final count = 'select count(*) as n from $table';
        final returned = await pool.transaction((transaction) async {
          await transaction.execute('insert into $table values (1)');
          expect((await transaction.queryOne(count)).getInt('n'), 1, 'within');
          expect((await pool.queryOne(count)).getInt('n'), 0, 'outside');
          return 'value';
        });
        expect(returned, 'value');
        expect((await pool.queryOne(count)).getInt('n'), 1);
        final thrown = await expectThrows<FormatException>(
          () => pool.transaction<int>((transaction) async {
            await transaction.execute('insert into $table values (2)');
            throw const FormatException('mine');
          }),
        );
        expect(thrown.message, 'mine');
        final server = await expectThrows<ServerException>(
          () => pool.transaction((transaction) async {
            await transaction.execute('insert into $table values (3)');
            return transaction.execute('insert into $table values (1)');
          }),
        );
        expectThat(server.sqlState.startsWith('23'), server.sqlState);
        expect((await pool.queryOne(count)).getInt('n'), 1);
        // Not waited for, and committed all the same.
        await pool.transaction((transaction) async {
          transaction.execute('insert into $table values (4)').ignore();
        });
        expect((await pool.queryOne(count)).getInt('n'), 2);
      });
    });
  });

  testAll('commit, rollback, and nothing behind them', (database) async {
    await withPool(database.url(), (pool) async {
      await withTable(pool, 'id int primary key', (table) async {
        final first = await pool.begin();
        await first.execute('insert into $table values (1)');
        await first.commit();
        expectThat(first.isEnded, 'it has ended');
        await expectThrows<ClosedException>(() => first.query('select 1'));
        await expectThrows<ClosedException>(first.commit);
        await expectThrows<ClosedException>(first.rollback);
        final second = await pool.begin();
        await second.batch([Statement('insert into $table values (2)'), Statement('insert into $table values (3)')]);
        await second.rollback();
        expect((await pool.query('select id from $table')).toMaps(), [
          {'id': 1},
        ]);
        // The work may end it by itself.
        await pool.transaction((transaction) async {
          await transaction.execute('insert into $table values (5)');
          await transaction.rollback();
        });
        expect((await pool.query('select id from $table')).length, 1);
      });
    });
  });

  testAll('isolation and reading only', (database) async {
    await withPool(database.url(), (pool) async {
      await withTable(pool, 'id int primary key', (table) async {
        final error = await expectThrows<ServerException>(
          () => pool.transaction(
            isolation: Isolation.serializable,
            readOnly: true,
            deferrable: database == Database.postgres,
            (transaction) => transaction.execute('insert into $table values (1)'),
          ),
        );
        expectThat(error.sqlState == '25006', error.toString());
        final isolation = database == Database.postgres ? Isolation.readUncommitted : Isolation.repeatableRead;
        if (database == Database.postgres) {
          await expectThrows<StatementException>(() => pool.begin(isolation: isolation));
        } else {
          await pool.transaction((_) async {}, isolation: isolation, snapshot: true);
        }
      });
    });
  });

  testAll('a forgotten transaction is rolled back when it is collected', (database) async {
    await withPool(database.url('pool_size=4'), (pool) async {
      await withTable(pool, 'id int primary key', (table) async {
        Future<void> forget() async {
          final transaction = await pool.begin();
          await transaction.execute('insert into $table values (1)');
        }

        await forget();
        await until(() async {
          collect();
          return Cenote.counts.sessions == 0;
        }, 'its collection');
        await until(() => pool.stats.leases == 0, 'the connection is back');
        expect((await pool.queryOne('select count(*) as n from $table')).getInt('n'), 0);
      });
    });
  });
}

/// Has the VM collect: by using memory up.
void collect() {
  var kept = <List<int>>[];
  for (var number = 0; number < 200; number++) {
    kept.add(List<int>.filled(20000, number));
    if (kept.length > 20) kept = [];
  }
}
