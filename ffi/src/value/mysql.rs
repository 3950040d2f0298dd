//! Values as MySQL's parameters.

use std::error::Error as StdError;

use bytes::BytesMut;
use cenote_mysql::value::{Decimal, IsNull, ParameterType, ToValue};
use chrono::{DateTime, Days, NaiveDate, TimeDelta};

use super::{Unfit, Value};

type Written = Result<IsNull, Box<dyn StdError + Send + Sync>>;

impl ToValue for Value {
    fn null_type() -> ParameterType {
        ParameterType::Null
    }

    fn parameter_type(&self) -> ParameterType {
        match self {
            Value::Null | Value::List(_) => ParameterType::Null,
            Value::Bool(_) | Value::Int(_) => ParameterType::BigInt,
            Value::Uint(value) => value.parameter_type(),
            Value::Double(_) => ParameterType::Double,
            Value::Text(_) | Value::Json(_) => ParameterType::Text,
            Value::Bytes(_) | Value::Uuid(_) => ParameterType::Bytes,
            Value::Timestamp { .. } | Value::DateTime { .. } => ParameterType::DateTime,
            Value::Date { .. } => ParameterType::Date,
            Value::Time { .. } | Value::Interval { .. } => ParameterType::Time,
            Value::Decimal(_) => ParameterType::Decimal,
        }
    }

    fn to_value(&self, out: &mut BytesMut) -> Written {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Bool(value) => i64::from(*value).to_value(out),
            Value::Int(value) => value.to_value(out),
            Value::Uint(value) => value.to_value(out),
            Value::Double(value) => value.to_value(out),
            Value::Text(value) | Value::Json(value) => value.to_value(out),
            Value::Bytes(value) => (&**value).to_value(out),
            Value::Uuid(value) => value.to_value(out),
            Value::Timestamp { us } | Value::DateTime { us } => {
                let moment = DateTime::from_timestamp_micros(*us).ok_or_else(|| self.out_of_range())?;
                moment.naive_utc().to_value(out)
            }
            Value::Date { days } => self.date(*days)?.to_value(out),
            Value::Time { us } | Value::Interval { us } => TimeDelta::microseconds(*us).to_value(out),
            Value::Decimal(value) => value.parse::<Decimal>()?.to_value(out),
            Value::List(_) => Err(Box::new(Unfit("MySQL has no lists; send it as JSON".to_owned()))),
        }
    }
}

impl Value {
    pub(super) fn date(&self, days: i64) -> Result<NaiveDate, Unfit> {
        let epoch = NaiveDate::default();
        let date = match u64::try_from(days) {
            Ok(days) => epoch.checked_add_days(Days::new(days)),
            Err(_) => epoch.checked_sub_days(Days::new(days.unsigned_abs())),
        };
        date.ok_or_else(|| self.out_of_range())
    }

    pub(super) fn out_of_range(&self) -> Unfit {
        Unfit(format!("{} out of range", self.kind()))
    }
}
