part of '../database.dart';

/// What the native library holds for this process, in all isolates. For finding leaks.
final class CenoteCounts {
  const CenoteCounts._(this.contexts, this.pools, this.sessions, this.blocks, this.errors, this.servers);

  /// Isolates that have used the library, and are there.
  final int contexts;

  /// Opens of pools.
  final int pools;

  /// Leases and transactions.
  final int sessions;

  /// Large results.
  final int blocks;

  /// Errors.
  final int errors;

  /// HTTP servers.
  final int servers;

  @override
  String toString() =>
      'contexts: $contexts, pools: $pools, sessions: $sessions, blocks: $blocks, errors: $errors, servers: $servers';
}

/// The native library.
abstract final class Cenote {
  /// Loads the native library from [path], for this isolate. Without a path, or if this is not called, it is looked for: in
  /// the environment's `CENOTE_LIBRARY`; beside the program and in `../lib` from there; in the package's folder `native`, in its
  /// repository's `target`; and where the system looks. Harmless when it is loaded already.
  ///
  /// Throws a [LibraryException] if it is not there or of another version.
  static void open({String? path}) => Library.open(path);

  /// The native library's version.
  static String get version {
    final library = Library.current;
    final place = library.allocate(sizeOf<Pointer<Uint8>>() + sizeOf<Size>()).cast<Pointer<Uint8>>();
    try {
      final length = Pointer<Size>.fromAddress(place.address + sizeOf<Pointer<Uint8>>());
      library.version(place, length);
      return utf8.decode(place.value.asTypedList(length.value));
    } finally {
      library.free(place);
    }
  }

  /// What the native library holds for this process right now.
  static CenoteCounts get counts {
    final library = Library.current;
    final counts = library.allocate(sizeOf<Counts>()).cast<Counts>();
    try {
      counts.ref.size = sizeOf<Counts>();
      final status = library.counts(counts);
      if (status != statusOk) throw refusal(status);
      final now = counts.ref;
      return CenoteCounts._(now.contexts, now.pools, now.sessions, now.blocks, now.errors, now.servers);
    } finally {
      library.free(counts);
    }
  }

  /// How many calls of this isolate are under way.
  static int get underWay => Context.current.operations;
}
