// Every type of MySQL and MariaDB that has one in Dart, both ways.

import 'dart:convert';
import 'dart:typed_data';

import 'package:cenote/cenote.dart';
import 'package:cenote/src/column.dart' show Wire;
import 'package:cenote/src/decode.dart' show decode;

import 'harness.dart';

const _servers = [Database.mysql, Database.mariadb];

/// A column's type, a parameter, what comes back, and its JSON.
final List<(String, Object?, Object?, Object?)> _values = [
  ('tinyint', -128, -128, -128),
  ('tinyint unsigned', 255, 255, 255),
  ('smallint', -32768, -32768, -32768),
  ('smallint unsigned', 65535, 65535, 65535),
  ('mediumint', -8388608, -8388608, -8388608),
  ('mediumint unsigned', 16777215, 16777215, 16777215),
  ('int', -2147483648, -2147483648, -2147483648),
  ('int unsigned', 4294967295, 4294967295, 4294967295),
  ('bigint', -9223372036854775808, -9223372036854775808, -9223372036854775808),
  ('bigint unsigned', 5, 5, 5),
  (
    'bigint unsigned',
    BigInt.parse('18446744073709551615'),
    BigInt.parse('18446744073709551615'),
    18446744073709551615.0,
  ),
  ('boolean', true, 1, 1),
  ('float', 1.5, 1.5, 1.5),
  ('double', -1e300, -1e300, -1e300),
  ('decimal(30,10)', Decimal('-12345.6789000000'), Decimal('-12345.6789000000'), -12345.6789),
  ('decimal(40,0)', BigInt.parse('1234567890123456789012345'), Decimal('1234567890123456789012345'), null),
  ('varchar(40)', 'é "q" \\ \n 🎉', 'é "q" \\ \n 🎉', 'é "q" \\ \n 🎉'),
  ('char(5)', 'a', 'a', 'a'),
  ('text', '', '', ''),
  ("enum('a','b')", 'b', 'b', 'b'),
  ("set('a','b')", 'a,b', 'a,b', 'a,b'),
  ('varbinary(10)', Uint8List.fromList([0, 255]), Uint8List.fromList([0, 255]), 'AP8='),
  ('blob', Uint8List.fromList([1]), Uint8List.fromList([1]), 'AQ=='),
  ('date', Date(2024, 2, 29), Date(2024, 2, 29), '2024-02-29'),
  (
    'datetime(6)',
    DateTime.utc(2024, 1, 2, 3, 4, 5, 6, 7),
    DateTime.utc(2024, 1, 2, 3, 4, 5, 6, 7),
    '2024-01-02T03:04:05.006007Z',
  ),
  ('datetime', DateTime.utc(2024, 1, 2), DateTime.utc(2024, 1, 2), '2024-01-02T00:00:00.000Z'),
  ('timestamp', DateTime.utc(2024, 1, 2, 3), DateTime.utc(2024, 1, 2, 3), '2024-01-02T03:00:00.000Z'),
  ('time', const Duration(hours: -838, minutes: -59), const Duration(hours: -838, minutes: -59), '-838:59:00'),
  (
    'time(6)',
    const TimeOfDay(1, 2, 3, 4),
    const Duration(hours: 1, minutes: 2, seconds: 3, microseconds: 4),
    '01:02:03.000004',
  ),
  ('time', Duration.zero, Duration.zero, '00:00:00'),
  ('year', 2024, 2024, 2024),
  ('bit(1)', 1, 1, 1),
  ('bit(64)', 5, 5, 5),
];

/// Adds the tests.
void addMySqlTypes() {
  testAll('every type both ways, and as JSON', (database) async {
    await withPool(database.url(), (pool) async {
      for (final (type, parameter, expected, json) in _values) {
        await withTable(pool, 'v $type null', (table) async {
          await pool.execute('insert into $table values (?), (null)', parameters: [parameter]);
          final rows = await pool.query('select v from $table order by v is null');
          expect(rows[0]['v'], expected, '$type $parameter');
          expect(rows[1]['v'], null, 'NULL of $type');
          final decoded = jsonDecode(utf8.decode(rows.toJsonBytes())) as List<Object?>;
          if (json != null) {
            expect(decoded, [
              {'v': json},
              {'v': null},
            ], 'JSON of $type');
          }
        });
      }
    });
  }, _servers);

  testAll('JSON', (database) async {
    await withPool(database.url(), (pool) async {
      await withTable(pool, 'id int, v json', (table) async {
        final values = <Object?>[
          {'a': 1},
          [1, 'two', null],
          const Json('text'),
        ];
        for (final (id, value) in values.indexed) {
          await pool.execute('insert into $table values (?, ?)', parameters: [id, value]);
        }
        final rows = await pool.query('select v from $table order by id');
        expect(rows[0].getMap('v'), {'a': 1});
        expect(rows[1].getList<Object?>('v'), [1, 'two', null]);
        expect(rows[2].getJson('v'), 'text');
        if (database == Database.mysql) {
          expect(rows[0]['v'], {'a': 1});
          expect(utf8.decode(rows[0].toJsonBytes()), '{"v":{"a": 1}}');
        }
      });
    });
  }, _servers);

  testAll('what an insert drew, zero dates, truth, UUIDs and text of anything', (database) async {
    await withPool(database.url(), (pool) async {
      await withTable(pool, 'id int primary key auto_increment, u binary(16)', (table) async {
        const text = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11';
        final first = await pool.query('insert into $table (u) values (?)', parameters: [Uuid(text)]);
        expect((first.lastInsertId, first.rowsAffected), (1, 1));
        final row = await pool.queryOne('select * from $table');
        expect(row.getUuid('u'), text);
        expect(row.getBytes('u').length, 16);
      });
      final row = await pool.queryOne(
        "select cast(1 as signed) as yes, cast(12.50 as decimal(5,2)) as d, cast('10:11:12' as time) as t, "
        "cast('2024-01-02' as date) as day, cast('2024-01-02 03:04:05' as datetime) as m",
      );
      expect((row.getBool('yes'), row.getDecimal('d'), row.getDouble('d')), (true, Decimal('12.50'), 12.5));
      expect(row.getTime('t'), const TimeOfDay(10, 11, 12));
      expect((row.getDateTime('m'), row.getDate('m')), (DateTime.utc(2024, 1, 2, 3, 4, 5), Date(2024, 1, 2)));
      expect((row.getString('d'), row.getString('day')), ('12.50', '2024-01-02'));
      final lease = await pool.lease();
      await lease.execute("set sql_mode = ''");
      await lease.execute('create temporary table zero (d date, m datetime)');
      await lease.execute("insert into zero values ('0000-00-00', '0000-00-00')");
      final zero = await lease.queryOne('select d, m from zero');
      await expectThrows<ValueException>(() => zero.getDate('d'));
      await expectThrows<ValueException>(() => zero.getDateTime('m'));
      lease.release();
    });
  }, _servers);

  testAll('case 36: packets past 16 MiB, both ways', (database) async {
    await withPool(database.url(), (pool) async {
      // MariaDB's own bound on a packet is 16 MiB, unless its administrator says otherwise.
      final length = database == Database.mysql ? 17000000 : 16000000;
      final row = await pool.queryOne("select repeat('x', $length) as v");
      expect(row.getString('v').length, length);
      final bytes = database == Database.mysql ? 17000000 : 16000000;
      final back = await pool.queryOne('select length(?) as n', parameters: [Uint8List(bytes)]);
      expect(back.getInt('n'), bytes);
    });
  }, _servers);

  test('values of MySQL\'s text protocol', () async {
    Object? read(Wire wire, String text) {
      final bytes = utf8.encode(text);
      return decode(wire, bytes, ByteData.sublistView(bytes), 0, bytes.length);
    }

    expect(read(Wire.textInt, '-5'), -5);
    expect(read(Wire.textInt, '18446744073709551615'), BigInt.parse('18446744073709551615'));
    expect(read(Wire.textDouble, '1.5'), 1.5);
    expect(read(Wire.textDate, '2024-02-29'), Date(2024, 2, 29));
    expect(read(Wire.textDateTime, '2024-01-02 03:04:05.5'), DateTime.utc(2024, 1, 2, 3, 4, 5, 500));
    expect(
      read(Wire.textTime, '-838:59:58.25'),
      -const Duration(hours: 838, minutes: 59, seconds: 58, milliseconds: 250),
    );
    await expectThrows<FormatException>(() => read(Wire.textDate, '0000-00-00'));
  });
}
