// Memory of the C heap that grows, for what is written to the library in one piece.

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:convert' show utf8;
import 'dart:ffi';
import 'dart:typed_data';

import 'library.dart';

/// What it begins with, and shrinks to.
const _bytesMin = 16 * 1024;
const _bytesKept = 1024 * 1024;

/// Bytes that are written one behind the other.
base class Memory implements Finalizable {
  Memory(this._library) {
    _grow(_bytesMin);
  }

  final Library _library;
  Pointer<Uint8> _memory = nullptr;
  late Uint8List bytes;
  late ByteData data;
  int length = 0;

  bool get isEmpty => length == 0;
  Pointer<Uint8> get pointer => _memory;

  /// The length of what was written at this place: each begins with it.
  int lengthAt(int place) => data.getUint64(place, Endian.host);

  /// Forgets all.
  void clear() {
    length = 0;
    if (bytes.length > _bytesKept) _grow(_bytesMin);
  }

  /// Room for so many bytes, which are zero; where it begins.
  int reserve(int count) {
    final begin = length;
    if (begin + count > bytes.length) _grow((begin + count) * 2);
    length = begin + count;
    bytes.fillRange(begin, length, 0);
    return begin;
  }

  /// Up to a multiple of 8.
  void align() => reserve(-length & 7);

  void put(int at, int number) => data.setUint64(at, number, Endian.host);

  /// Writes bytes; how many.
  int writeBytes(List<int> list) {
    final begin = reserve(list.length);
    bytes.setRange(begin, begin + list.length, list);
    return list.length;
  }

  /// Writes text as UTF-8; its length in bytes. Most of it is ASCII, which needs no other list.
  int writeString(String text) {
    final units = text.length;
    final begin = reserve(units);
    final bytes = this.bytes;
    for (var at = 0; at < units; at++) {
      final unit = text.codeUnitAt(at);
      if (unit >= 0x80) {
        length = begin;
        return writeBytes(utf8.encode(text));
      }
      bytes[begin + at] = unit;
    }
    return units;
  }

  void _grow(int count) {
    final memory = _library.allocate(count);
    final view = memory.asTypedList(count);
    if (_memory != nullptr) {
      view.setRange(0, length, bytes);
      _library.freeFinalizer.detach(this);
      _library.free(_memory);
    }
    _library.freeFinalizer.attach(this, memory.cast(), detach: this, externalSize: count);
    _memory = memory;
    bytes = view;
    data = ByteData.sublistView(view);
  }
}
