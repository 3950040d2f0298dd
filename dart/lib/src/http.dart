/// The HTTP core, for an isolate: sockets, parsing and limits are the library's, and what answers is here.
library;

import 'dart:async';
import 'dart:convert' show JsonUtf8Encoder, jsonDecode, utf8;
import 'dart:io' show stderr;
import 'dart:typed_data';

import 'exceptions.dart';
import 'native/context.dart';
import 'native/http.dart';

part 'http/request.dart';
part 'http/routes.dart';
part 'http/server.dart';
