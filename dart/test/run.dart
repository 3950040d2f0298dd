// All tests: `scripts/dart run test/run.dart [FILTER]`, with the servers' addresses in the environment.

import 'dart:io';

import 'child.dart';
import 'delivery.dart';
import 'errors.dart';
import 'harness.dart';
import 'isolates.dart';
import 'mysql_types.dart';
import 'postgres_types.dart';
import 'processes.dart';
import 'serving.dart';
import 'transactions.dart';
import 'verbs.dart';

Future<void> main(List<String> arguments) async {
  if (arguments case ['--child', final name, ...final rest]) {
    await runChild(name, rest);
    return;
  }
  addVerbs();
  addPostgresTypes();
  addMySqlTypes();
  addErrors();
  addTransactions();
  addDelivery();
  addIsolates();
  addProcesses();
  addServing();
  if (!await runTests(arguments.firstOrNull ?? '')) exitCode = 1;
}
