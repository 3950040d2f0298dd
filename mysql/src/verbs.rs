//! The verbs of a pool, once more for what has a connection of its own. No logic of its own.

/// The verbs for a type with a method `session() -> &Pool` whose statements go to its own connection.
macro_rules! verbs {
    () => {
        /// Runs a query and returns its rows, as [`Pool::query`](crate::Pool::query) does. Of a procedure: those of its one
        /// result that has any; for more there is [`call`](Self::call).
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error).
        pub fn query<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn crate::value::ToValue + Sync)],
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
            parameters: &'q [&'q (dyn crate::value::ToValue + Sync)],
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
            parameters: &'q [&'q (dyn crate::value::ToValue + Sync)],
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
            parameters: &'q [&'q (dyn crate::value::ToValue + Sync)],
        ) -> crate::Query<'q, Vec<T>> {
            self.session().query_as(sql, parameters)
        }

        /// Runs a query without preparing it, as [`Pool::query_text`](crate::Pool::query_text) does.
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error).
        pub fn query_text<'q>(
            &'q self,
            sql: &'q str,
        ) -> impl Future<Output = Result<Vec<crate::Row>, crate::Error>> + Send + 'q {
            self.session().query_text(sql)
        }

        /// Runs a statement and returns its result as it came.
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error).
        pub fn query_raw<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn crate::value::ToValue + Sync)],
        ) -> crate::Query<'q, crate::RawResult> {
            self.session().query_raw(sql, parameters)
        }

        /// Runs a statement and tells what it did; rows it returns are dropped.
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error).
        pub fn execute<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn crate::value::ToValue + Sync)],
        ) -> crate::Query<'q, crate::Executed> {
            self.session().execute(sql, parameters)
        }

        /// Runs a stored procedure and returns all of its results, in order: those of its queries, then a row with its OUT
        /// and INOUT parameters if any was given as `?`, then how it ended.
        ///
        /// ```no_run
        /// # async fn example(lease: cenote_mysql::Lease) -> Result<(), cenote_mysql::Error> {
        /// let results = lease.call("call report(?, ?)", &[&2026, &None::<i64>]).await?;
        /// let total = results.iter().find(|result| result.is_out_parameters());
        /// let total: Option<i64> = total.map(|result| result.rows()[0].get(0)).transpose()?;
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error). When the procedure fails in its middle, what it returned before is lost; what it did
        /// before is not undone by that.
        pub fn call<'q>(
            &'q self,
            sql: &'q str,
            parameters: &'q [&'q (dyn crate::value::ToValue + Sync)],
        ) -> crate::Query<'q, Vec<crate::ResultSet>> {
            self.session().call(sql, parameters)
        }

        /// The same without preparing it, with rows in the text protocol. OUT parameters are given as user variables here
        /// (`call report(2026, @total)`) and asked for behind it (`select @total`).
        ///
        /// # Errors
        ///
        /// See [`Error`](crate::Error).
        pub fn call_text<'q>(
            &'q self,
            sql: &'q str,
        ) -> impl Future<Output = Result<Vec<crate::ResultSet>, crate::Error>> + Send + 'q {
            self.session().call_text(sql)
        }
    };
}

pub(crate) use verbs;
