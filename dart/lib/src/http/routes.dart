part of '../http.dart';

/// What answers a request.
typedef Handler = FutureOr<Response> Function(Request request);

/// Routes by method and path.
final class _Routes {
  /// Those without parameters, by path and then method.
  final Map<String, Map<String, Handler>> _exact = {};
  final List<(List<String>, String, Handler)> _patterns = [];

  void add(String method, String pattern, Handler handler) {
    if (!pattern.startsWith('/')) throw ArgumentError.value(pattern, 'pattern', 'a route begins with /');
    if (!pattern.contains('/:')) {
      final methods = _exact[pattern] ??= {};
      if (methods.containsKey(method)) throw ArgumentError.value(pattern, 'pattern', 'there is one already');
      methods[method] = handler;
      return;
    }
    _patterns.add((pattern.split('/'), method, handler));
  }

  /// The handler of a request, or the refusal.
  FutureOr<Response> answer(Request request) {
    final exact = _exact[request.path];
    if (exact != null) {
      final handler = exact[request.method] ?? (request.method == 'HEAD' ? exact['GET'] : null);
      if (handler != null) return handler(request);
    }
    final allowed = {...?exact?.keys};
    if (_patterns.isNotEmpty) {
      final segments = request.path.split('/');
      for (final (pattern, method, handler) in _patterns) {
        final parameters = _match(pattern, segments);
        if (parameters == null) continue;
        if (method == request.method || method == 'GET' && request.method == 'HEAD') {
          request._parameters = parameters;
          return handler(request);
        }
        allowed.add(method);
      }
    }
    if (allowed.isEmpty) return Response.error(404, 'not found');
    return Response.error(405, 'method not allowed', headers: {'allow': allowed.join(', ')});
  }

  Map<String, String>? _match(List<String> pattern, List<String> segments) {
    if (pattern.length != segments.length) return null;
    final parameters = <String, String>{};
    for (var at = 0; at < pattern.length; at++) {
      final wanted = pattern[at];
      final segment = segments[at];
      if (wanted.startsWith(':')) {
        if (segment.isEmpty) return null;
        parameters[wanted.substring(1)] = segment;
      } else if (wanted != segment) {
        return null;
      }
    }
    try {
      return parameters.map((name, value) => MapEntry(name, Uri.decodeComponent(value)));
      // What the client sent is at fault; no route has such a name.
      // ignore: avoid_catching_errors
    } on ArgumentError {
      return null;
    }
  }
}
