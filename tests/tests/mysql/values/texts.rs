//! Text, bytes, and what is told apart only by its character set.

use bytes::Bytes;
use cenote_mysql::ColumnType;
use cenote_mysql::value::Value;
use cenote_tests::mysql::Server;
use cenote_tests::on_each_server;

use super::{Place, read};

on_each_server!(
    texts_make_the_round_trip,
    bytes_make_the_round_trip,
    the_character_set_tells_text_from_bytes,
    what_the_server_tells_of_itself_is_text,
    bytes_that_are_no_text_are_an_error,
    vectors_and_geometry_make_the_round_trip,
);

const TEXTS: [&str; 5] = ["", "a", "äöü €uro 🐘", "it's \"quoted\" \\ % \0 NUL", "line\nbreak\ttab"];

async fn texts_make_the_round_trip(server: Server) {
    let place = Place::new(server, "texts").await;
    for sql_type in ["varchar(100)", "tinytext", "text", "mediumtext", "longtext", "varchar(100) collate utf8mb4_bin"] {
        place.round_trip(sql_type, TEXTS.map(str::to_owned)).await;
    }
    place.round_trip("text", TEXTS.map(Box::<str>::from)).await;
    place.round_trip("char(10)", ["", "abc"].map(str::to_owned)).await;
    place.round_trip("varchar(9) character set ascii collate ascii_bin", ["".to_owned(), "abc".to_owned()]).await;
    place.round_trip("varchar(9) character set latin1", ["äöü".to_owned()]).await;
    let long = "äb🐘".repeat(40_000);
    place
        .round_trip("longtext", [250, 251, 65_535, 65_536].map(|bytes| "x".repeat(bytes)).into_iter().chain([long]))
        .await;
    place.round_trip("enum('happy', 'so so', 'ü')", ["happy", "so so", "ü"].map(str::to_owned)).await;
    place.round_trip("set('a', 'b', 'c')", ["", "a", "a,c", "a,b,c"].map(str::to_owned)).await;
    place.round_trip("json", ["{\"a\": [1, null, \"ü\"]}", "null", "\"🐘\""].map(str::to_owned)).await;
}

async fn bytes_make_the_round_trip(server: Server) {
    let place = Place::new(server, "bytes").await;
    let all: Vec<u8> = (0..=255).collect();
    for sql_type in ["blob", "mediumblob", "longblob", "varbinary(300)"] {
        place.round_trip(sql_type, [Vec::new(), vec![0], all.clone()]).await;
    }
    place.round_trip("longblob", [all.repeat(1_000)]).await;
    place.round_trip("tinyblob", [Bytes::from_static(b"\xFF\0")]).await;
    place.round_trip("binary(4)", [*b"\0\x01\xFE\xFF", *b"abcd"]).await;
    for row in place.made_by("binary(4)", "'ab'").await {
        assert_eq!(read::<&[u8]>(&row), b"ab\0\0", "a BINARY is filled up");
    }
}

/// Case 25.
async fn the_character_set_tells_text_from_bytes(server: Server) {
    let place = Place::new(server, "character_sets").await;
    let json = if server == Server::Mysql { ColumnType::Json } else { ColumnType::Text };
    for (sql_type, expected) in [
        ("varchar(9)", ColumnType::VarChar),
        ("varchar(9) collate utf8mb4_bin", ColumnType::VarChar),
        ("varchar(9) character set ascii collate ascii_bin", ColumnType::VarChar),
        ("char(9) collate utf8mb4_bin", ColumnType::Char),
        ("text collate utf8mb4_bin", ColumnType::Text),
        ("json", json),
        ("enum('1') collate utf8mb4_bin", ColumnType::Enum),
        ("set('1') collate utf8mb4_bin", ColumnType::Set),
        ("varbinary(9)", ColumnType::VarBinary),
        ("binary(1)", ColumnType::Binary),
        ("blob", ColumnType::Blob),
    ] {
        for row in place.made_by(sql_type, "'1'").await {
            let column = &row.columns()[0];
            assert_eq!(column.type_(), expected, "{sql_type}");
            if column.type_().is_text() {
                assert_eq!((read::<&str>(&row), read::<&[u8]>(&row)), ("1", &b"1"[..]), "{sql_type}");
                assert_eq!(read::<Value>(&row), Value::Text("1".to_owned()), "{sql_type}");
            } else {
                assert_eq!(read::<&[u8]>(&row), b"1", "{sql_type}");
                let error = row.get::<_, &str>(0).expect_err("it is bytes");
                assert!(error.is_caller() && error.to_string().contains(expected.name()), "{sql_type}: {error}");
                assert_eq!(read::<Value>(&row), Value::Bytes(b"1".to_vec()), "{sql_type}");
            }
        }
    }
}

async fn what_the_server_tells_of_itself_is_text(server: Server) {
    let place = Place::new(server, "about_itself").await;
    let table = place.table("int default 7 comment 'ü'").await;
    let sql = "select table_name, column_name, data_type, column_type, column_default, column_comment \
               from information_schema.columns where table_schema = database() and table_name = ? and column_name = ?";
    let row = place.pool.query_one(sql, &[&table, &"v"]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0).unwrap(), table);
    assert_eq!((row.get::<_, &str>("DATA_TYPE").unwrap(), row.get::<_, &str>("column_default").unwrap()), ("int", "7"));
    assert!(row.get::<_, &str>("column_type").unwrap().starts_with("int"));
    assert_eq!(row.get::<_, &str>("column_comment").unwrap(), "ü");
    let row =
        place.pool.query_one("select version(), current_user(), database(), uuid(), hex('a')", &[]).await.unwrap();
    for number in 0..row.len() {
        assert!(!row.get::<_, &str>(number).unwrap().is_empty(), "{:?}", row.columns()[number]);
    }
    let rows = place.pool.query(&format!("show columns from {table}"), &[]).await.unwrap();
    assert_eq!(rows.iter().map(read::<&str>).collect::<Vec<_>>(), ["id", "v"]);
}

async fn bytes_that_are_no_text_are_an_error(server: Server) {
    let place = Place::new(server, "no_text").await;
    let table = place.table("varchar(9)").await;
    let insert = format!("insert into {table} (v) values (?)");
    let error = place.pool.execute(&insert, &[&b"\xFF\xFE"]).await.expect_err("it is no text");
    assert!(error.is_server(), "{error}");
    place.pool.execute(&insert, &[&"text"]).await.expect("the statement is as good as ever");
}

async fn vectors_and_geometry_make_the_round_trip(server: Server) {
    let place = Place::new(server, "vectors").await;
    place.round_trip("vector(3)", [vec![1.0_f32, -0.5, 16_777_216.0], vec![0.0, f32::MIN_POSITIVE, 3.25]]).await;
    for row in place.made_by("point", "ST_GeomFromText('POINT(1 2)')").await {
        assert_eq!(row.columns()[0].type_(), ColumnType::Geometry);
        let bytes = read::<&[u8]>(&row);
        // The number of the reference system, then the byte order, the kind, and two numbers.
        assert_eq!((&bytes[..9], bytes.len()), (&[0, 0, 0, 0, 1, 1, 0, 0, 0][..], 25));
        assert_eq!(bytes[9..17], 1.0_f64.to_le_bytes());
    }
    let bytes = read::<Vec<u8>>(&place.made_by("point", "ST_GeomFromText('POINT(3 4)')").await[0]);
    place.round_trip("point", [bytes]).await;
}
