import { deletedRow, isInScope, rowKey, type SizedRow, type TableScope } from '@weighbridge/state';

/** The rows of the tables, and with which revision each of them changed last. Deleted rows too, until their change is forgotten. */
export class RowVersions {
  readonly #rows = new Map<string, SizedRow>();
  /** The latest change last. */
  readonly #changed = new Map<string, { readonly revision: bigint; readonly now: SizedRow }>();
  #bytes = 0;

  /** The size of all rows in protobuf. */
  get bytes(): number {
    return this.#bytes;
  }

  all(): Iterable<SizedRow> {
    return this.#rows.values();
  }

  /** Takes the rows that were read of a scope, as they are at a revision. Returns whether any of them differs. */
  read(rows: readonly SizedRow[], scope: TableScope, revision: bigint): boolean {
    const keys = new Set<string>();
    let isChanged = false;
    for (const row of rows) {
      // More may have been read than is in the scope.
      if (!isInScope(scope, row.row)) continue;
      const key = rowKey(row.row);
      keys.add(key);
      const known = this.#rows.get(key);
      if (known && isSame(known.packed, row.packed)) continue;
      this.#rows.set(key, row);
      this.#bytes += row.packed.length - (known?.packed.length ?? 0);
      this.#note(key, revision, row);
      isChanged = true;
    }
    for (const [key, known] of this.#inScope(scope)) {
      if (keys.has(key)) continue;
      this.#rows.delete(key);
      this.#bytes -= known.packed.length;
      this.#note(key, revision, deletedRow(known));
      isChanged = true;
    }
    return isChanged;
  }

  /** The rows that changed after a revision, as they are now. */
  changedAfter(revision: bigint): SizedRow[] {
    return [...this.#changed.values()].filter((one) => one.revision > revision).map(({ now }) => now);
  }

  /** No one asks for changes of this revision or an earlier one any more. */
  forget(revision: bigint): void {
    for (const [key, change] of this.#changed) {
      if (change.revision > revision) return;
      this.#changed.delete(key);
    }
  }

  clear(): void {
    this.#rows.clear();
    this.#changed.clear();
    this.#bytes = 0;
  }

  *#inScope(scope: TableScope): Iterable<[string, SizedRow]> {
    for (const [key, row] of this.#rows) if (isInScope(scope, row.row)) yield [key, row];
  }

  #note(key: string, revision: bigint, now: SizedRow): void {
    this.#changed.delete(key);
    this.#changed.set(key, { revision, now });
  }
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}
