//! Values as Postgres' parameters: in the binary format of the parameter's type, or as text where the server has to read it.

use std::error::Error as StdError;
use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use chrono::{DateTime, NaiveTime, TimeDelta};
use postgres_protocol::types as wire;
use postgres_types::{Format, IsNull, Kind, ToSql, Type};

use super::{Unfit, Value};

type Written = Result<IsNull, Box<dyn StdError + Send + Sync>>;

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Written {
        let ty = inner(ty);
        if self.travels_as_text(ty) {
            return self.append_text(out).map(|()| IsNull::No).map_err(|_| self.unfit(ty));
        }
        self.append_binary(ty, out)
    }

    fn accepts(_: &Type) -> bool {
        // Each value is looked at by itself.
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Written {
        self.to_sql(ty, out)
    }

    fn encode_format(&self, ty: &Type) -> Format {
        if self.travels_as_text(inner(ty)) { Format::Text } else { Format::Binary }
    }
}

/// The type behind domains.
fn inner(ty: &Type) -> &Type {
    match ty.kind() {
        Kind::Domain(base) => inner(base),
        _ => ty,
    }
}

/// Types whose binary format is the text itself.
fn is_text(ty: &Type) -> bool {
    const TEXTS: [Type; 6] = [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::NAME, Type::UNKNOWN, Type::JSON];
    TEXTS.contains(ty)
}

impl Value {
    fn travels_as_text(&self, ty: &Type) -> bool {
        match self {
            Value::Text(_) => !is_text(ty),
            Value::Json(_) => *ty == Type::JSONB,
            Value::Decimal(_) => true,
            Value::Int(_) | Value::Uint(_) | Value::Double(_) => *ty == Type::NUMERIC,
            Value::List(values) => match ty.kind() {
                Kind::Array(member) => values.iter().any(|value| {
                    matches!(value, Value::List(_)) || *value != Value::Null && value.travels_as_text(inner(member))
                }),
                _ => false,
            },
            _ => false,
        }
    }

    fn append_binary(&self, ty: &Type, out: &mut BytesMut) -> Written {
        let moment = |us: i64| DateTime::from_timestamp_micros(us).ok_or_else(|| self.out_of_range());
        match self {
            Value::Null => return Ok(IsNull::Yes),
            Value::Bool(value) if *ty == Type::BOOL => wire::bool_to_sql(*value, out),
            Value::Int(value) => return self.integer(i128::from(*value), ty, out),
            Value::Uint(value) => return self.integer(i128::from(*value), ty, out),
            Value::Double(value) if *ty == Type::FLOAT8 => wire::float8_to_sql(*value, out),
            Value::Double(value) if *ty == Type::FLOAT4 => wire::float4_to_sql(*value as f32, out),
            Value::Text(value) => wire::text_to_sql(value, out),
            Value::Json(value) if is_text(ty) => wire::text_to_sql(value, out),
            Value::Bytes(value) if *ty == Type::BYTEA => wire::bytea_to_sql(value, out),
            Value::Uuid(value) if *ty == Type::UUID => wire::uuid_to_sql(*value, out),
            Value::Timestamp { us } | Value::DateTime { us } => {
                let moment = moment(*us)?;
                return match *ty {
                    Type::TIMESTAMPTZ => moment.to_sql(ty, out),
                    Type::TIMESTAMP => moment.naive_utc().to_sql(ty, out),
                    Type::DATE => moment.date_naive().to_sql(ty, out),
                    _ => Err(self.unfit(ty)),
                };
            }
            Value::Date { days } => {
                let date = self.date(*days)?;
                return match *ty {
                    Type::DATE => date.to_sql(ty, out),
                    Type::TIMESTAMP => date.and_time(NaiveTime::MIN).to_sql(ty, out),
                    Type::TIMESTAMPTZ => date.and_time(NaiveTime::MIN).and_utc().to_sql(ty, out),
                    _ => Err(self.unfit(ty)),
                };
            }
            Value::Time { us } if *ty == Type::TIME => {
                if !(0..=86_400_000_000).contains(us) {
                    return Err(self.out_of_range().into());
                }
                wire::time_to_sql(*us, out);
            }
            Value::Interval { us } if *ty == Type::INTERVAL => {
                // Microseconds, days, months.
                out.put_i64(*us);
                out.put_i32(0);
                out.put_i32(0);
            }
            Value::List(values) => return self.list(values, ty, out),
            _ => return Err(self.unfit(ty)),
        }
        Ok(IsNull::No)
    }

    fn integer(&self, value: i128, ty: &Type, out: &mut BytesMut) -> Written {
        let unfit = |_| Unfit(format!("{value} does not fit {ty}"));
        match *ty {
            Type::INT2 => wire::int2_to_sql(i16::try_from(value).map_err(unfit)?, out),
            Type::INT4 => wire::int4_to_sql(i32::try_from(value).map_err(unfit)?, out),
            Type::INT8 => wire::int8_to_sql(i64::try_from(value).map_err(unfit)?, out),
            Type::OID => wire::oid_to_sql(u32::try_from(value).map_err(unfit)?, out),
            // What a double cannot tell from its neighbours is refused.
            Type::FLOAT8 if (value as f64) as i128 == value => wire::float8_to_sql(value as f64, out),
            Type::FLOAT4 if (value as f32) as i128 == value => wire::float4_to_sql(value as f32, out),
            _ => return Err(self.unfit(ty)),
        }
        Ok(IsNull::No)
    }

    fn list(&self, values: &[Value], ty: &Type, out: &mut BytesMut) -> Written {
        let Kind::Array(member) = ty.kind() else { return Err(self.unfit(ty)) };
        let length = i32::try_from(values.len()).map_err(|_| self.out_of_range())?;
        let dimension = wire::ArrayDimension { len: length, lower_bound: 1 };
        wire::array_to_sql(
            (length > 0).then_some(dimension),
            member.oid(),
            values,
            |value, out| match value.append_binary(inner(member), out)? {
                IsNull::Yes => Ok(postgres_protocol::IsNull::Yes),
                IsNull::No => Ok(postgres_protocol::IsNull::No),
            },
            out,
        )?;
        Ok(IsNull::No)
    }

    /// As the server reads it.
    fn append_text(&self, out: &mut BytesMut) -> std::fmt::Result {
        match self {
            Value::Text(text) | Value::Json(text) | Value::Decimal(text) => out.write_str(text),
            Value::Bool(value) => write!(out, "{value}"),
            Value::Int(value) => write!(out, "{value}"),
            Value::Uint(value) => write!(out, "{value}"),
            Value::Double(value) if value.is_infinite() => {
                out.write_str(if *value > 0.0 { "Infinity" } else { "-Infinity" })
            }
            Value::Double(value) => write!(out, "{value}"),
            Value::Uuid(bytes) => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
            Value::Bytes(bytes) => {
                out.write_str("\\x")?;
                bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
            }
            Value::Timestamp { us } => {
                let moment = DateTime::from_timestamp_micros(*us).ok_or(std::fmt::Error)?;
                write!(out, "{}+00", moment.naive_utc())
            }
            Value::DateTime { us } => {
                let moment = DateTime::from_timestamp_micros(*us).ok_or(std::fmt::Error)?;
                write!(out, "{}", moment.naive_utc())
            }
            Value::Date { days } => write!(out, "{}", self.date(*days).map_err(|_| std::fmt::Error)?),
            Value::Time { us } => {
                let time = NaiveTime::MIN.overflowing_add_signed(TimeDelta::microseconds(*us)).0;
                write!(out, "{time}")
            }
            Value::Interval { us } => write!(out, "{us} microseconds"),
            Value::List(values) => {
                out.write_str("{")?;
                for (number, value) in values.iter().enumerate() {
                    if number > 0 {
                        out.write_str(",")?;
                    }
                    match value {
                        Value::Null => out.write_str("NULL")?,
                        Value::List(_) => value.append_text(out)?,
                        value => append_quoted(value, out)?,
                    }
                }
                out.write_str("}")
            }
            Value::Null => Err(std::fmt::Error),
        }
    }

    fn unfit(&self, ty: &Type) -> Box<dyn StdError + Send + Sync> {
        Box::new(Unfit(format!("{} for a parameter of type {ty}", self.kind())))
    }
}

/// A member of an array's text: in quotes, so that nothing in it means anything.
fn append_quoted(value: &Value, out: &mut BytesMut) -> std::fmt::Result {
    let mut text = BytesMut::new();
    value.append_text(&mut text)?;
    let text = std::str::from_utf8(&text).map_err(|_| std::fmt::Error)?;
    out.write_char('"')?;
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.write_char('\\')?;
        }
        out.write_char(character)?;
    }
    out.write_char('"')
}
