// Pools, leases and transactions: one library, as they are made of each other.

import 'dart:async';
import 'dart:convert' show utf8;
import 'dart:ffi';

import 'cancel_token.dart';
import 'exceptions.dart';
import 'native/context.dart';
import 'native/errors.dart';
import 'native/library.dart';
import 'native/structs.dart';
import 'result.dart';

part 'database/cenote.dart';
part 'database/executor.dart';
part 'database/pool.dart';
part 'database/session.dart';
