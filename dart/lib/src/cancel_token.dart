// Cancelling from outside.

/// Ends the calls that it was given to, when it is cancelled: each fails at once with a `CancelledException`.
///
/// What was sent to the server on a shared connection runs to its end, and its result is dropped: to stop it there would hit
/// whoever runs by then. In a lease or a transaction the server is asked to stop it.
final class CancelToken {
  final List<void Function()> _listeners = [];
  bool _isCancelled = false;

  /// Whether it was cancelled.
  bool get isCancelled => _isCancelled;

  /// Cancels every call under way that has it, and all that are given it later.
  void cancel() {
    if (_isCancelled) return;
    _isCancelled = true;
    final listeners = List.of(_listeners);
    _listeners.clear();
    for (final listener in listeners) {
      listener();
    }
  }
}

/// What the package does with a token, and nobody else.
extension CancelTokenListeners on CancelToken {
  /// Has a function called when it is cancelled.
  void listen(void Function() listener) => _listeners.add(listener);

  /// Takes it back.
  void forget(void Function() listener) => _listeners.remove(listener);
}
