part of '../http.dart';

/// An HTTP server of this isolate: HTTP/1.1 with keep-alive and pipelining.
///
/// ```dart
/// final server = Server.bind('127.0.0.1:8080')
///   ..get('/', (request) => Response.text('hello'))
///   ..get('/item/:id', (request) async => Response.json(await item(request.parameters['id']!)));
/// ```
///
/// The bodies of requests have been read when a handler is called, up to a bound. A handler that throws a [FormatException]
/// answers 400, with its message; one that throws anything else 500, and `onError` hears of it.
final class Server implements HttpHost {
  Server._(this._context, this._withHeaders, this._onError) : _answers = AnswerWriter(_context.library);

  /// Listens on an address, `127.0.0.1:8080` for example (port 0 is any that is free).
  ///
  /// With [shared] other isolates may listen on the same address, and the kernel spreads the connections. A body of more
  /// than [bodyBytesMax] is answered with 413; a stop waits for what is in flight for [stopDeadline] at most. [onError] hears of
  /// what handlers throw; without it that is written to the standard error output. Handlers run in the zone of this call.
  ///
  /// Throws a [CenoteException] if the address cannot be had, a [StatementException] if it makes no sense.
  factory Server.bind(
    String address, {
    bool shared = false,
    bool withHeaders = false,
    int bodyBytesMax = 1024 * 1024,
    int connectionsMax = 10000,
    Duration stopDeadline = const Duration(seconds: 8),
    Duration keepAliveTimeout = const Duration(seconds: 75),
    void Function(Object error, StackTrace trace)? onError,
  }) {
    final context = Context.current;
    final server = Server._(context, withHeaders, onError ?? _tell);
    server._handle = context.listen(
      server,
      address,
      flags: (shared ? httpSharePort : 0) | (withHeaders ? httpHeaders : 0),
      bodyBytesMax: bodyBytesMax,
      connectionsMax: connectionsMax,
      stopDeadline: stopDeadline,
      keepAliveTimeout: keepAliveTimeout,
    );
    return server;
  }

  final Context _context;
  final bool _withHeaders;
  final void Function(Object error, StackTrace trace) _onError;
  final Zone _zone = Zone.current;
  final AnswerWriter _answers;
  final _Routes _routes = _Routes();
  final Completer<void> _ended = Completer<void>();
  late final int _handle;

  /// Requests that came so far.
  int requests = 0;

  /// Whether requests come with their headers.
  bool get withHeaders => _withHeaders;

  /// The port it listens on.
  int get port => _context.portOf(_handle);

  /// Completes when it has ended.
  Future<void> get done => _ended.future;

  /// Answers GET, and HEAD, on a path. `:name` stands for one segment, which `request.parameters` then has.
  void get(String path, Handler handler) => route('GET', path, handler);

  /// Answers POST on a path.
  void post(String path, Handler handler) => route('POST', path, handler);

  /// Answers a method on a path.
  void route(String method, String path, Handler handler) => _routes.add(method, path, handler);

  /// Stops: connections that wait are accepted, the port is closed, what is in flight is answered. Completes when that is
  /// done, or the stop's deadline is over.
  Future<void> close() {
    _context.stop(_handle);
    return _ended.future;
  }

  @override
  void request(Uint8List bytes, ByteData data, int at) {
    requests++;
    final request = Request._read(bytes, data, at);
    // All of it, since errors of futures do not pass from one zone to another.
    _zone.runUnaryGuarded(_run, request);
  }

  void _run(Request request) {
    final handle = request._handle;
    try {
      final answer = _routes.answer(request);
      if (answer is Response) {
        _answer(handle, answer);
      } else {
        unawaited(
          answer
              .then((response) => _answer(handle, response))
              .then<void>((_) {}, onError: (Object error, StackTrace trace) => _fail(handle, error, trace)),
        );
      }
    } on Object catch (error, trace) {
      _fail(handle, error, trace);
    }
  }

  void _answer(int handle, Response response) {
    // Its client is gone with it.
    if (_ended.isCompleted) return;
    _answers.write(
      handle,
      response.status,
      response.contentType,
      response.headers,
      response.body,
      closes: response.closes,
    );
    _context.answered();
  }

  void _fail(int handle, Object error, StackTrace trace) {
    if (error is FormatException) {
      _answer(handle, Response.error(400, error.message));
      return;
    }
    _answer(handle, Response.error(500, 'the handler has failed'));
    _onError(error, trace);
  }

  static void _tell(Object error, StackTrace trace) => stderr.writeln('a handler has failed: $error\n$trace');

  @override
  void ended(Object? failure) {
    flush();
    _context.forget(_handle);
    if (failure == null) {
      _ended.complete();
    } else {
      _ended.completeError(failure);
    }
  }

  @override
  void flush() {
    if (_answers.isEmpty) return;
    _context.handOver(_handle, _answers);
    _answers.clear();
  }
}
