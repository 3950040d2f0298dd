// What goes wrong, and what it is told as.

import 'dart:async';

import 'package:cenote/cenote.dart';

import 'harness.dart';

/// Adds the tests.
void addErrors() {
  testAll('a server error has all its fields', (database) async {
    await withPool(database.url(), (pool) async {
      await withTable(pool, 'id int primary key', (table) async {
        await pool.execute('insert into $table values (1)');
        final error = await expectThrows<ServerException>(() => pool.execute('insert into $table values (1)'));
        if (database == Database.postgres) {
          expect((error.sqlState, error.number, error.severity), ('23505', 0, 'ERROR'));
          expect((error.schema, error.table, error.constraint), ('public', table, '${table}_pkey'));
          expect((error.detail, error.routine), ('Key (id)=(1) already exists.', '_bt_check_unique'));
          expectThat(error.line! > 0 && error.file == 'nbtinsert.c', '${error.file}:${error.line}');
        } else {
          expect((error.sqlState, error.number), ('23000', 1062));
        }
        expectThat(error.serverMessage.toLowerCase().contains('duplicate'), error.serverMessage);
        expect(error.batchIndex, null);
      });
    });
  });

  test('a syntax error says where [postgres]', () async {
    await withPool(Database.postgres.url(), (pool) async {
      final error = await expectThrows<ServerException>(() => pool.query('select wrong from'));
      expect((error.sqlState, error.position), ('42601', 18));
    });
  });

  testAll('a parameter that does not fit, or is missing, is the caller\'s fault', (database) async {
    await withPool(database.url(), (pool) async {
      final sql = 'select id from world where id = ${database.mark(1)}';
      await expectThrows<StatementException>(() => pool.query(sql));
      await expectThrows<StatementException>(() => pool.query(sql, parameters: [1, 2]));
      await expectThrows<StatementException>(() => pool.query(sql, parameters: [Stopwatch()]));
      await expectThrows<StatementException>(() => pool.query(sql, parameters: [Json(Stopwatch())]));
      if (database == Database.postgres) {
        final unfit = await expectThrows<StatementException>(() => pool.query(sql, parameters: [true]));
        expectThat(unfit.message.contains('int4'), unfit.message);
        await expectThrows<StatementException>(() => pool.query(sql, parameters: [1 << 40]));
      }
      expect((await pool.queryOne(sql, parameters: [3])).getInt('id'), 3);
    });
  });

  testAll('settings that make no sense, and a wrong password', (database) async {
    await expectThrows<StatementException>(() => Pool.open('nothing of the kind'));
    await expectThrows<StatementException>(() => Pool.open(database.url('no_such_setting=1')));
    await withPool(database.url().replaceFirst(':cenote@', ':wrong@'), (pool) async {
      final error = await expectThrows<ServerException>(() => pool.query('select 1'));
      expect(error.sqlState, database == Database.postgres ? '28P01' : '28000');
      expectThat(!'$error'.contains('wrong'), 'no password in $error');
    });
  });

  testAll('nobody listens', (database) async {
    final url = database.url('acquire_timeout=300ms').replaceFirst(RegExp(r'127\.0\.0\.1:\d+'), '127.0.0.1:9');
    await withPool(url, (pool) async {
      final error = await expectThrows<CenoteException>(() => pool.query('select 1'));
      expectThat(error is NetworkException || error is CenoteTimeoutException, '$error');
      expectThat(error is! NetworkException || error.wasSent != true, 'not sent: $error');
    });
  });

  testAll('a connection that is ended under a statement', (database) async {
    await withPool(database.url('pool_size=2'), (pool) async {
      await withPool(database.adminUrl(), (admin) async {
        final lease = await pool.lease();
        final number = (await lease.queryOne(database.sessionNumber)).getInt('n');
        final lost = expectThrows<CenoteException>(() => lease.query(database.sleep(30)));
        final isSleeping = database == Database.postgres
            ? "select count(*) as n from pg_stat_activity where pid = $number and state = 'active'"
            : "select count(*) as n from information_schema.processlist where id = $number and info like '%sleep%'";
        await until(() async => (await admin.queryOne(isSleeping)).getInt('n') == 1, 'it sleeps');
        if (database == Database.postgres) {
          await admin.query('select pg_terminate_backend($number)');
        } else {
          await admin.execute('kill $number');
        }
        final error = await lost;
        expectThat(
          error is NetworkException && error.wasSent == true || error is ServerException,
          'it says that it was sent: $error',
        );
        lease.release();
        expect((await pool.queryOne('select 1 as n')).getInt('n'), 1, 'the pool goes on');
      });
    });
  });

  testAll('case 34: a timeout completes at once, and the late answer is nobody\'s', (database) async {
    await withPool(database.url('pool_size=2'), (pool) async {
      const timeout = Duration(milliseconds: 50);
      final error = await expectThrows<CenoteTimeoutException>(() => pool.query(database.sleep(0.5), timeout: timeout));
      expectThat((error as Object) is TimeoutException, 'it is one of dart:async too');
      await expectThrows<CenoteTimeoutException>(
        () => pool.batch([Statement(database.sleep(0.5))], timeout: timeout),
        'a batch',
      );
      expect(Cenote.underWay, 0);
      // Slots are used again while late answers come.
      for (var round = 0; round < 50; round++) {
        final rows = await Future.wait([for (var id = 1; id <= 20; id++) pool.queryOne('select $id as n')]);
        expect([for (final row in rows) row.getInt('n')], [for (var id = 1; id <= 20; id++) id]);
      }
    });
  });

  testAll('a lease that nobody waits for any more goes back', (database) async {
    await withPool(database.url('pool_size=2'), (pool) async {
      final first = await pool.lease();
      await expectThrows<CenoteTimeoutException>(() => pool.begin(timeout: const Duration(milliseconds: 50)));
      await expectThrows<CenoteTimeoutException>(() => pool.lease(timeout: const Duration(milliseconds: 50)));
      first.release();
      final second = await pool.lease(timeout: const Duration(seconds: 10));
      second.release();
      await until(() => pool.stats.leases == 0 && Cenote.counts.sessions == 0, 'all are back');
    });
  });

  testAll('a token cancels what has it', (database) async {
    await withPool(database.url('pool_size=3'), (pool) async {
      final token = CancelToken();
      final outcomes = [
        for (var number = 0; number < 3; number++)
          expectThrows<CancelledException>(() => pool.query(database.sleep(0.2), cancel: token)),
      ];
      final other = pool.queryOne('select 1 as n');
      // In the same turn, before anything was submitted.
      token.cancel();
      await Future.wait(outcomes);
      expectThat(token.isCancelled, 'it was cancelled');
      await expectThrows<CancelledException>(() => pool.query('select 1', cancel: token));
      await expectThrows<CancelledException>(() => pool.begin(cancel: token));
      expect((await other).getInt('n'), 1);
      expect(Cenote.underWay, 0);
    });
  });

  testAll('in a transaction the server is asked to stop what was cancelled', (database) async {
    await withPool(database.url('pool_size=2'), (pool) async {
      final transaction = await pool.begin();
      await transaction.query('select 1');
      final token = CancelToken();
      final cancelled = expectThrows<CancelledException>(() => transaction.query(database.sleep(100), cancel: token));
      await Future<void>.delayed(const Duration(milliseconds: 200));
      token.cancel();
      await cancelled;
      // It would wait for those hundred seconds.
      await transaction.rollback().onError<CenoteException>((_, _) {});
      expect((await pool.queryOne('select 1 as n')).getInt('n'), 1);
    });
  });

  testAll('cancelRunning stops what runs, and says whether there was anything', (database) async {
    await withPool(database.url('pool_size=2'), (pool) async {
      final lease = await pool.lease();
      expect(await lease.cancelRunning(), false);
      Object? error;
      final stopped = lease
          .query(database.sleep(100))
          .then<void>(
            (_) {},
            onError: (Object caught) {
              error = caught;
            },
          );
      await Future<void>.delayed(const Duration(milliseconds: 200));
      expect(await lease.cancelRunning(), true);
      await stopped;
      // MySQL's sleep() returns 1 when it is interrupted, the others' statements fail.
      if (database == Database.postgres) expect((error! as ServerException).sqlState, '57014');
      expectThat(error == null || error is ServerException, '$error');
      lease.release();
    });
  });

  testAll('a field that is read as what it is not', (database) async {
    await withPool(database.url(), (pool) async {
      final row = await pool.queryOne("select 'text' as t, 1 as n, cast(null as char(3)) as nothing");
      expect((await expectThrows<ValueException>(() => row.getInt('t'))).column, 't');
      await expectThrows<ValueException>(() => row.getDateTime('n'));
      await expectThrows<ValueException>(() => row.getMap('t'));
      await expectThrows<ValueException>(() => row.get<double>('n'));
      await expectThrows<ValueException>(() => row.getString('nothing'));
      await expectThrows<ValueException>(() => row['missing']);
      await expectThrows<ValueException>(() => row[3]);
      await expectThrows<ValueException>(() => row[-1]);
      expect(row.getStringOrNull('nothing'), null);
      expect(row.get<String?>('nothing'), null);
      expect((row.isNull('nothing'), row.isNull('n')), (true, false));
      expect(row.getString('n'), '1');
    });
  });

  testAll('case 35: text that is no UTF-8 is a typed error, and bytes all the same', (database) async {
    await withPool(database.url('pool_size=2'), (pool) async {
      final lease = await pool.lease();
      if (database == Database.postgres) await lease.execute("set client_encoding = 'LATIN1'");
      final bad = database == Database.postgres ? "chr(233) || 'a'" : "cast(x'e961' as binary)";
      final row = await lease.queryOne("select 1 as n, $bad as t, 'good' as g");
      expect((await expectThrows<ValueException>(() => row.getString('t'))).column, 't');
      expect(row.getBytes('t').toList(), [233, 97]);
      expect((row.getInt('n'), row.getString('g')), (1, 'good'));
      if (database == Database.postgres) {
        await expectThrows<ValueException>(() => row['t']);
        await expectThrows<ValueException>(row.toJsonBytes);
      }
      lease.release();
    });
  });
}
