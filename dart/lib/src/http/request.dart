part of '../http.dart';

/// A request, as it came.
final class Request {
  Request._(this._handle, this.method, this.path, this.query, this._headers, this.body);

  factory Request._read(Uint8List bytes, ByteData data, int at) {
    String text(int place) {
      final begin = at + data.getUint32(at + place, Endian.host);
      return String.fromCharCodes(bytes, begin, begin + data.getUint32(at + place + 4, Endian.host));
    }

    final bodyAt = at + data.getUint32(at + 40, Endian.host);
    final bodyLength = data.getUint32(at + 44, Endian.host);
    return Request._(
      data.getUint64(at, Endian.host),
      text(8),
      text(16),
      text(24),
      text(32),
      bodyLength == 0 ? _noBytes : Uint8List.fromList(Uint8List.sublistView(bytes, bodyAt, bodyAt + bodyLength)),
    );
  }

  static final _noBytes = Uint8List(0);

  final int _handle;

  /// The method, in capitals as sent.
  final String method;

  /// The path as sent, still percent-encoded, without the query.
  final String path;

  /// The query as sent, without the question mark; empty if there is none.
  final String query;

  final String _headers;

  /// The body; empty if there is none.
  final Uint8List body;

  Map<String, String> _parameters = const {};

  /// What the route calls `:name` in the path, decoded.
  Map<String, String> get parameters => _parameters;

  /// What the query names, decoded; of several with one name the last. Throws a [FormatException] if it is not
  /// percent-encoded UTF-8.
  late final Map<String, String> queryParameters = _queryParameters();

  Map<String, String> _queryParameters() {
    if (query.isEmpty) return const {};
    try {
      return Uri.splitQueryString(query);
      // What the client sent is at fault.
      // ignore: avoid_catching_errors
    } on ArgumentError catch (error) {
      throw FormatException('the query cannot be decoded: ${error.message}');
    }
  }

  /// The headers by their names in small letters; of several with one name the last. Empty unless the server was bound
  /// `withHeaders`.
  late final Map<String, String> headers = {
    for (final line in _headers.split('\n'))
      if (line.indexOf(':') case final colon when colon > 0) line.substring(0, colon): line.substring(colon + 2),
  };

  /// The body as JSON. Throws a [FormatException] if it is none.
  Object? json() => jsonDecode(utf8.decode(body));
}

/// An answer.
final class Response {
  /// An answer with a body of bytes.
  const Response(this.status, {this.body = const [], this.contentType = '', this.headers, this.closes = false});

  /// An answer without a body.
  const Response.empty({int status = 200}) : this(status);

  /// An answer of text.
  Response.text(String text, {int status = 200, Map<String, String>? headers})
    : this(status, body: utf8.encode(text), contentType: 'text/plain; charset=utf-8', headers: headers);

  /// A value as JSON.
  Response.json(Object? value, {int status = 200, Map<String, String>? headers})
    : this(status, body: _jsonEncoder.convert(value), contentType: 'application/json', headers: headers);

  /// JSON in UTF-8 already, such as that of `Row.toJsonBytes`.
  const Response.jsonBytes(List<int> body, {int status = 200, Map<String, String>? headers})
    : this(status, body: body, contentType: 'application/json', headers: headers);

  /// An error as short JSON: `{"error":"<message>"}`.
  Response.error(int status, String message, {Map<String, String>? headers})
    : this.json({'error': message}, status: status, headers: headers);

  static final _jsonEncoder = JsonUtf8Encoder();

  /// The status: 200, for example.
  final int status;

  /// The body, in bytes.
  final List<int> body;

  /// The content type; empty: none with an empty body, else bytes.
  final String contentType;

  /// Headers besides: one line each.
  final Map<String, String>? headers;

  /// Whether the connection is closed behind it.
  final bool closes;
}
