//! A type of another crate that is read and sent by way of one of ours.

macro_rules! converted {
    ($($ty:ty: $own:ty),+ $(,)?) => {$(
        impl<'a> crate::value::FromValue<'a> for $ty {
            fn accepts(column: &crate::wire::column::Column) -> bool {
                <$own>::accepts(column)
            }

            fn from_value(
                column: &crate::wire::column::Column,
                field: crate::value::Field<'a>,
            ) -> Result<$ty, Box<dyn std::error::Error + Send + Sync>> {
                Ok(<$ty>::try_from(<$own>::from_value(column, field)?)?)
            }
        }

        impl crate::value::ToValue for $ty {
            fn null_type() -> crate::value::ParameterType {
                <$own>::null_type()
            }

            fn parameter_type(&self) -> crate::value::ParameterType {
                <$own>::null_type()
            }

            fn to_value(
                &self,
                out: &mut bytes::BytesMut,
            ) -> Result<crate::value::IsNull, Box<dyn std::error::Error + Send + Sync>> {
                <$own>::try_from(*self)?.to_value(out)
            }
        }
    )+};
}

pub(crate) use converted;
