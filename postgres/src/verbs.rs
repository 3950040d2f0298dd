//! The verbs of a pool, once more for what has a connection of its own. No logic of its own.

/// The verbs for a type with a method `session() -> &Pool` whose statements go to its own connection.
macro_rules! verbs {
    () => {
        /// Runs a query and returns its rows, as [`Pool::query`](crate::Pool::query) does.
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error).
        pub fn query<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn postgres_types::ToSql + Sync)],
        ) -> crate::Query<'q, Vec<crate::Row>> {
            self.session().query(sql, parameters)
        }

        /// Runs a query that returns exactly one row.
        ///
        /// # Errors
        ///
        /// Also when there is no row, or more than one.
        pub fn query_one<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn postgres_types::ToSql + Sync)],
        ) -> crate::Query<'q, crate::Row> {
            self.session().query_one(sql, parameters)
        }

        /// Runs a query that returns at most one row.
        ///
        /// # Errors
        ///
        /// Also when there is more than one row.
        pub fn query_opt<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn postgres_types::ToSql + Sync)],
        ) -> crate::Query<'q, Option<crate::Row>> {
            self.session().query_opt(sql, parameters)
        }

        /// Runs a query and makes a value of each row.
        ///
        /// # Errors
        ///
        /// Also when a row does not fit `T`.
        pub fn query_as<'q, T: crate::FromRow + 'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn postgres_types::ToSql + Sync)],
        ) -> crate::Query<'q, Vec<T>> {
            self.session().query_as(sql, parameters)
        }

        /// Runs a query whose parameter types the caller names: always one round trip.
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error).
        pub fn query_typed<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [(&'q (dyn postgres_types::ToSql + Sync), postgres_types::Type)],
        ) -> impl Future<Output = Result<Vec<crate::Row>, crate::Error>> + Send + 'q {
            self.session().query_typed(sql, parameters)
        }

        /// Runs a statement and returns its result as it came.
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error).
        pub fn query_raw<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn postgres_types::ToSql + Sync)],
        ) -> crate::Query<'q, crate::RawResult> {
            self.session().query_raw(sql, parameters)
        }

        /// Runs a statement and returns the number of rows it affected; rows it returns are dropped.
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error).
        pub fn execute<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn postgres_types::ToSql + Sync)],
        ) -> crate::Query<'q, u64> {
            self.session().execute(sql, parameters)
        }

        /// Several statements in one round trip, as [`Pool::batch`](crate::Pool::batch).
        pub fn batch(&self) -> crate::Batch<'_> {
            self.session().batch()
        }
    };
}

pub(crate) use verbs;
