// Every type of Postgres that has one in Dart, both ways.

import 'dart:convert';
import 'dart:typed_data';

import 'package:cenote/cenote.dart';

import 'harness.dart';

/// A type, a parameter, what comes back, and its JSON.
final List<(String, Object?, Object?, Object?)> _values = [
  ('bool', true, true, true),
  ('int2', -32768, -32768, -32768),
  ('int4', 2147483647, 2147483647, 2147483647),
  ('int8', -9223372036854775808, -9223372036854775808, -9223372036854775808),
  ('int8', 9223372036854775807, 9223372036854775807, 9223372036854775807),
  ('int4', 0, 0, 0),
  ('oid', 4294967295, 4294967295, 4294967295),
  ('float4', 1.5, 1.5, 1.5),
  ('float8', -1e300, -1e300, -1e300),
  ('float8', double.nan, double.nan, null),
  ('float8', double.infinity, double.infinity, null),
  ('float8', 7, 7.0, 7.0),
  ('numeric', Decimal('-12345678901234567890.0001200'), Decimal('-12345678901234567890.0001200'), null),
  ('numeric', Decimal('0.00'), Decimal('0.00'), 0.0),
  ('numeric', Decimal('0.000000012'), Decimal('0.000000012'), 0.000000012),
  ('numeric', Decimal('10000'), Decimal('10000'), 10000),
  ('numeric', Decimal('NaN'), Decimal('NaN'), null),
  ('numeric', BigInt.parse('123456789012345678901234567890'), Decimal('123456789012345678901234567890'), null),
  ('numeric', BigInt.parse('18446744073709551615'), Decimal('18446744073709551615'), null),
  ('numeric', 5, Decimal('5'), 5),
  ('numeric', 0.1, Decimal('0.1'), 0.1),
  ('text', 'plain', 'plain', 'plain'),
  ('text', '', '', ''),
  ('text', 'é "q" \\ \n\t\u0001 🎉', 'é "q" \\ \n\t\u0001 🎉', 'é "q" \\ \n\t\u0001 🎉'),
  ('varchar(5)', 'abc', 'abc', 'abc'),
  ('char(3)', 'a', 'a  ', 'a  '),
  ('name', 'n', 'n', 'n'),
  ('bytea', Uint8List.fromList([0, 1, 254, 255]), Uint8List.fromList([0, 1, 254, 255]), 'AAH+/w=='),
  ('bytea', Uint8List(0), Uint8List(0), ''),
  ('json', {'a': 1}, {'a': 1}, {'a': 1}),
  (
    'jsonb',
    {
      'a': [1, null, 'x'],
    },
    {
      'a': [1, null, 'x'],
    },
    {
      'a': [1, null, 'x'],
    },
  ),
  ('jsonb', const Json([1, 'two']), [1, 'two'], [1, 'two']),
  ('jsonb', const Json(null), null, null),
  ('date', Date(2024, 2, 29), Date(2024, 2, 29), '2024-02-29'),
  ('date', Date(1969, 12, 31), Date(1969, 12, 31), '1969-12-31'),
  ('time', const TimeOfDay(23, 59, 58, 123456), const TimeOfDay(23, 59, 58, 123456), '23:59:58.123456'),
  ('time', const TimeOfDay(1, 2), const TimeOfDay(1, 2), '01:02:00'),
  ('timetz', '10:00:00+02', '10:00:00+02', '10:00:00+02'),
  ('timetz', '10:00:00-03:30', '10:00:00-03:30', '10:00:00-03:30'),
  (
    'timestamptz',
    DateTime.utc(2024, 1, 2, 3, 4, 5, 6, 7),
    DateTime.utc(2024, 1, 2, 3, 4, 5, 6, 7),
    '2024-01-02T03:04:05.006007Z',
  ),
  ('timestamptz', DateTime(2024, 7, 1, 12), DateTime(2024, 7, 1, 12).toUtc(), null),
  ('timestamp', DateTime.utc(1900, 1, 1), DateTime.utc(1900, 1, 1), '1900-01-01T00:00:00.000Z'),
  (
    'interval',
    const Duration(hours: 30, microseconds: 1),
    const Interval(microseconds: 108000000001),
    'PT108000.000001S',
  ),
  (
    'interval',
    const Interval(months: 14, days: -3, microseconds: 5),
    const Interval(months: 14, days: -3, microseconds: 5),
    'P14M-3DT0.000005S',
  ),
  (
    'uuid',
    Uuid('A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'),
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
  ),
  ('uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', null),
  ('inet', '10.1.2.3', '10.1.2.3', '10.1.2.3'),
  ('inet', '10.1.2.3/8', '10.1.2.3/8', null),
  ('cidr', '2001:db8::/32', '2001:db8::/32', '2001:db8::/32'),
  ('varbit', '10110', '10110', '10110'),
  ('xml', '<a/>', '<a/>', '<a/>'),
  ('int4[]', [1, null, 3], [1, null, 3], [1, null, 3]),
  ('int4[]', <int>[], <Object?>[], <Object?>[]),
  ('int8[]', Int32List.fromList([1, 2]), [1, 2], [1, 2]),
  ('text[]', ['a', 'b "c"', null, r'\'], ['a', 'b "c"', null, r'\'], ['a', 'b "c"', null, r'\']),
  (
    'int4[]',
    [
      [1, 2],
      [3, 4],
    ],
    [
      [1, 2],
      [3, 4],
    ],
    [
      [1, 2],
      [3, 4],
    ],
  ),
  ('numeric[]', [Decimal('1.50'), 2], [Decimal('1.50'), Decimal('2')], [1.5, 2]),
  ('bool[]', [true, false], [true, false], [true, false]),
  ('float8[]', [1.5], [1.5], [1.5]),
  ('uuid[]', [Uuid('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')], ['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'], null),
  ('timestamptz[]', [DateTime.utc(2024)], [DateTime.utc(2024)], ['2024-01-01T00:00:00.000Z']),
  ('date[]', [Date(2024, 1, 1)], [Date(2024, 1, 1)], ['2024-01-01']),
  (
    'bytea[]',
    [
      Uint8List.fromList([1, 2]),
    ],
    [
      Uint8List.fromList([1, 2]),
    ],
    null,
  ),
  (
    'jsonb[]',
    [
      {'a': 1},
    ],
    [
      {'a': 1},
    ],
    [
      {'a': 1},
    ],
  ),
  ('int4', '42', 42, 42),
  ('timestamptz', '2024-01-01 00:00:00+00', DateTime.utc(2024), null),
];

/// Adds the tests.
void addPostgresTypes() {
  test('every type both ways, and as JSON [postgres]', () async {
    await withPool(Database.postgres.url(), (pool) async {
      for (final (type, parameter, expected, json) in _values) {
        final sql = 'select \$1::$type as v';
        final row = await pool.queryOne(sql, parameters: [parameter]);
        expect(row['v'], expected, '$type $parameter');
        final decoded = jsonDecode(utf8.decode(row.toJsonBytes())) as Map<String, Object?>;
        if (json != null || expected == null) expect(decoded['v'], json, 'JSON of $type');
        final none = await pool.queryOne(sql, parameters: [null]);
        expect(none['v'], null, 'NULL of $type');
        expect(utf8.decode(none.toJsonBytes()), '{"v":null}');
      }
    });
  });

  test('typed getters [postgres]', () async {
    await withPool(Database.postgres.url(), (pool) async {
      final row = await pool.queryOne(
        "select 1::int2 as i, 2.50::numeric as d, 1.5::float4 as f, true as b, 'x' as s, '\\x01ff'::bytea as y, "
        "timestamptz '2024-01-02 03:04:05+00' as m, date '2024-01-02' as day, time '03:04' as t, "
        "interval '2 hours' as l, '{\"k\":[1]}'::jsonb as j, '[1,2]'::json as a, array['p','q'] as texts, "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid as u, 7.00::numeric as whole, sum(2::int8) as total, "
        'array[1,null] as holes',
      );
      expect((row.getInt('i'), row.getInt('whole'), row.getInt('total')), (1, 7, 2));
      expect((row.getDecimal('d'), row.getDecimal('i'), row.getDouble('d')), (Decimal('2.50'), Decimal('1'), 2.5));
      expect((row.getDouble('f'), row.getBool('b'), row.getString('s')), (1.5, true, 'x'));
      expect(row.getBytes('y'), Uint8List.fromList([1, 255]));
      expect(row.getDateTime('m'), DateTime.utc(2024, 1, 2, 3, 4, 5));
      expectThat(row.getDateTime('m').isUtc, 'UTC');
      expect((row.getDate('m'), row.getDate('day')), (Date(2024, 1, 2), Date(2024, 1, 2)));
      expect((row.getTime('t'), row.getDuration('l')), (const TimeOfDay(3, 4), const Duration(hours: 2)));
      expect(row.getMap('j'), {
        'k': [1],
      });
      expect((row.getString('j'), row.getString('d'), row.getString('t')), ('{"k": [1]}', '2.50', '03:04:00'));
      expect(row.getList<int>('a'), [1, 2]);
      expect(row.getList<String>('texts'), ['p', 'q']);
      expect(row.getList<int?>('holes'), [1, null]);
      await expectThrows<ValueException>(() => row.getList<int>('holes'));
      await expectThrows<ValueException>(() => row.getInt('d'));
      expect(row.getUuid('u'), 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11');
      expect((row.getBigInt('whole'), row.get<int>('i')), (BigInt.from(7), 1));
      expect(row.toMap()['s'], 'x');
    });
  });

  test('infinite dates and times are typed errors, and text all the same [postgres]', () async {
    await withPool(Database.postgres.url(), (pool) async {
      final row = await pool.queryOne("select 'infinity'::timestamptz as m, '-infinity'::date as d");
      await expectThrows<ValueException>(() => row.getDateTime('m'));
      await expectThrows<ValueException>(() => row['d']);
      final far = await pool.queryOne("select '294000-01-01'::timestamp as m");
      await expectThrows<ValueException>(() => far['m']);
    });
  });

  test('enums, domains, composites and arrays of them [postgres]', () async {
    await withPool(Database.postgres.url(), (pool) async {
      await pool.execute('drop type if exists dart_mood cascade');
      await pool.execute("create type dart_mood as enum ('sad', 'glad')");
      await pool.execute('create domain dart_age as int4');
      try {
        final row = await pool.queryOne(
          r"select $1::dart_mood as m, $2::dart_mood[] as ms, 5::dart_age as a, row(1,'x') as r",
          parameters: [
            'glad',
            ['sad', 'glad'],
          ],
        );
        expect((row['m'], row.getString('m'), row['a']), ('glad', 'glad', 5));
        expect(row.getList<String>('ms'), ['sad', 'glad']);
        expectThat(row['r'] is Uint8List, 'bytes of what is not known');
      } finally {
        await pool.execute('drop domain dart_age');
        await pool.execute('drop type dart_mood');
      }
    });
  });

  test('columns of odd names, of no name twice, and none [postgres]', () async {
    await withPool(Database.postgres.url(), (pool) async {
      final row = await pool.queryOne('select 1 as "na""me\n", 2 as "ünï", 3 as "ünï"');
      expect(row.getInt('na"me\n'), 1);
      expect((row.getInt('ünï'), row.getInt(2)), (2, 3));
      expect(utf8.decode(row.toJsonBytes()), '{"na\\"me\\n":1,"ünï":2,"ünï":3}');
      final empty = await pool.query('select from world where id < 3');
      expect((empty.length, empty[0].length, empty[0].toMap().length), (2, 0, 0));
      expect(utf8.decode(empty.toJsonBytes()), '[{},{}]');
      final none = await pool.query('select 1 where false');
      expect(utf8.decode(none.toJsonBytes()), '[]');
    });
  });
}
