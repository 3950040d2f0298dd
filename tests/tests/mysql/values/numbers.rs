//! Integers, floating-point numbers, DECIMAL, YEAR and BIT.

use cenote_mysql::ColumnType;
use cenote_mysql::value::{Decimal, Value};
use cenote_tests::mysql::Server;
use cenote_tests::on_each_server;

use super::{Place, Protocols, read};

on_each_server!(
    integers_make_the_round_trip,
    an_integer_that_does_not_fit_is_an_error_that_names_it,
    floating_point_numbers_make_the_round_trip,
    decimals_keep_all_their_digits,
    the_sum_of_integers_is_an_integer,
    years_and_bits_make_the_round_trip,
);

async fn integers_make_the_round_trip(server: Server) {
    let place = Place::new(server, "integers").await;
    place.round_trip("tinyint", [i8::MIN, -1, 0, 1, i8::MAX]).await;
    place.round_trip("tinyint unsigned", [0, 1, u8::MAX]).await;
    place.round_trip("smallint", [i16::MIN, -1, 0, i16::MAX]).await;
    place.round_trip("smallint unsigned", [0, u16::MAX]).await;
    place.round_trip("mediumint", [-8_388_608, -1, 0, 8_388_607]).await;
    place.round_trip("mediumint unsigned", [0_u32, 16_777_215]).await;
    place.round_trip("int", [i32::MIN, -1, 0, i32::MAX]).await;
    place.round_trip("int unsigned", [0, u32::MAX]).await;
    place.round_trip("int(10) unsigned zerofill", [0, 42, u32::MAX]).await;
    place.round_trip("bigint", [i64::MIN, -1, 0, i64::MAX]).await;
    place.round_trip("bigint unsigned", [0, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX]).await;
    place.round_trip("boolean", [true, false]).await;
    // The width of the column does not bind that of the program.
    place.round_trip("bigint", [i8::MIN, i8::MAX]).await;
    place.round_trip("tinyint", [-128_i64, 127]).await;
}

async fn an_integer_that_does_not_fit_is_an_error_that_names_it(server: Server) {
    let place = Place::new(server, "integers_too_great").await;
    for row in place.made_by("bigint unsigned", "18446744073709551615").await {
        assert_eq!(read::<u64>(&row), u64::MAX);
        let error = row.get::<_, i64>(0).expect_err("it does not fit");
        assert!(error.is_caller() && error.to_string().contains("18446744073709551615 is no i64"), "{error}");
    }
    for row in place.made_by("int", "-1").await {
        let error = row.get::<_, u32>("v").expect_err("it is negative");
        assert!(error.to_string().contains("\"v\": -1 is no u32 (0 to 4294967295)"), "{error}");
    }
    for row in place.made_by("tinyint", "2").await {
        assert!(row.get::<_, bool>(0).expect_err("neither true nor false").is_caller());
    }
}

async fn floating_point_numbers_make_the_round_trip(server: Server) {
    let place = Place::new(server, "floats").await;
    place.round_trip("float", [0.0_f32, -0.5, 1.5, 1024.0]).await;
    let edges = [f32::MIN, f32::MAX, f32::MIN_POSITIVE, 0.1, 16_777_217.0];
    place.round_trip_by(Protocols::BinaryAlone, "float", edges).await;
    place.round_trip("double", [0.0_f64, -0.5, 0.1, f64::MIN, f64::MAX, f64::MIN_POSITIVE, 1.0 / 3.0]).await;
    for row in place.made_by("float", "0.1").await {
        assert_eq!(read::<f64>(&row), f64::from(0.1_f32), "the same in both protocols");
        assert_eq!(read::<Value>(&row), Value::Float(0.1));
    }
    let error = place.pool.query("select ?", &[&f64::NAN]).await.expect_err("the server has none");
    assert!(error.is_caller() && error.to_string().contains("parameter 1"), "{error}");
}

/// Case 26: as many digits as there are, and none is lost on the way.
async fn decimals_keep_all_their_digits(server: Server) {
    let place = Place::new(server, "decimals").await;
    let greatest = format!("{}.{}", "9".repeat(35), "9".repeat(30));
    let least = format!("0.{}1", "0".repeat(29));
    let decimals = [&greatest, &format!("-{greatest}"), &least];
    place.round_trip::<Decimal>("decimal(65,30)", decimals.map(|text| text.parse().unwrap())).await;
    place.round_trip::<String>("decimal(65,30)", decimals.map(|text| text.to_string())).await;
    place.round_trip::<Decimal>("decimal(10,2)", ["12.50", "-0.01", "0.00"].map(|text| text.parse().unwrap())).await;
    let integer = "9".repeat(65);
    place.round_trip::<Decimal>("decimal(65)", [integer.parse().unwrap()]).await;
    for row in place.made_by("decimal(65)", &integer).await {
        let error = row.get::<_, i64>(0).expect_err("it does not fit");
        assert!(error.to_string().contains(&integer), "{error}");
        assert!(row.get::<_, f64>(0).expect_err("it would lose digits").to_string().contains("DECIMAL"));
    }
    // It is compared as a DECIMAL, to the last digit.
    let table = place.table("decimal(20,0)").await;
    place.admin.run(&format!("insert into {table} (v) values (10000000000000000001), (10000000000000000002)")).await;
    let sql = format!("select id from {table} where v = ?");
    let rows = place.pool.query(&sql, &[&"10000000000000000002".parse::<Decimal>().unwrap()]).await.unwrap();
    assert_eq!(rows.iter().map(read::<i32>).collect::<Vec<_>>(), [2]);
}

async fn the_sum_of_integers_is_an_integer(server: Server) {
    let place = Place::new(server, "sum").await;
    let table = place.table("int").await;
    place.admin.run(&format!("insert into {table} (v) values (2147483647), (2147483647)")).await;
    let row = place.pool.query_one(&format!("select sum(v), count(*), avg(v) from {table}"), &[]).await.unwrap();
    assert_eq!(row.columns()[0].type_(), ColumnType::Decimal);
    assert_eq!((row.get::<_, i64>(0).unwrap(), row.get::<_, u8>(1).unwrap()), (4_294_967_294, 2));
    let error = row.get::<_, i64>(2).expect_err("it has digits behind the point");
    assert!(error.to_string().contains("DECIMAL"), "{error}");
    assert_eq!(row.get::<_, &str>(2).unwrap(), "2147483647.0000");
}

async fn years_and_bits_make_the_round_trip(server: Server) {
    let place = Place::new(server, "years_and_bits").await;
    place.round_trip("year", [1901_u16, 2024, 2155]).await;
    for row in place.made_by("year", "0").await {
        assert_eq!(read::<u16>(&row), 0, "the year 0 is no other");
    }
    place.round_trip("bit(1)", [true, false]).await;
    place.round_trip("bit(64)", [0_u64, 1, i64::MAX as u64, u64::MAX]).await;
    for row in place.made_by("bit(12)", "b'101000000001'").await {
        assert_eq!((read::<u16>(&row), read::<&[u8]>(&row)), (0xA01, &[0x0A, 0x01][..]));
        assert_eq!(read::<Value>(&row), Value::Unsigned(0xA01));
    }
}
