//! `FromRow`: rows as values of the program.

use crate::error::Error;
use crate::row::Row;
use crate::value::FromValue;

/// A value made from a row. Tuples are made from the columns in order.
///
/// ```
/// use cenote_mysql::{Error, FromRow, Row};
///
/// struct Item {
///     id: i32,
///     name: String,
/// }
///
/// impl FromRow for Item {
///     fn from_row(row: &Row) -> Result<Item, Error> {
///         Ok(Item { id: row.get("id")?, name: row.get("name")? })
///     }
/// }
/// ```
pub trait FromRow: Sized {
    /// Makes the value.
    ///
    /// # Errors
    ///
    /// When the row does not have what it takes.
    fn from_row(row: &Row) -> Result<Self, Error>;
}

impl FromRow for Row {
    fn from_row(row: &Row) -> Result<Row, Error> {
        Ok(row.clone())
    }
}

macro_rules! tuple {
    ($count:literal: $($column:tt $name:ident),+) => {
        impl<$($name: for<'a> FromValue<'a>),+> FromRow for ($($name,)+) {
            fn from_row(row: &Row) -> Result<Self, Error> {
                if row.len() != $count {
                    return Err(Error::caller(format!("a row of {} columns as a tuple of {}", row.len(), $count)));
                }
                Ok(($(row.get($column)?,)+))
            }
        }
    };
}

tuple!(1: 0 A);
tuple!(2: 0 A, 1 B);
tuple!(3: 0 A, 1 B, 2 C);
tuple!(4: 0 A, 1 B, 2 C, 3 D);
tuple!(5: 0 A, 1 B, 2 C, 3 D, 4 E);
tuple!(6: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F);
tuple!(7: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G);
tuple!(8: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H);
tuple!(9: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I);
tuple!(10: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J);
tuple!(11: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J, 10 K);
tuple!(12: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J, 10 K, 11 L);
