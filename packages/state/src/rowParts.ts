import type { TableRow, TableRows } from '@weighbridge/contracts';

/** Eight times what the tables may take. */
const MAX_PARTS = 1_024;

/** Rows that arrived on a stream, and are in force once the snapshot or the delta that they belong to arrives. */
export class RowParts {
  #parts = 0;
  #rows: TableRow[] = [];

  /** Throws if there are too many. */
  add({ rows }: TableRows): void {
    if (this.#parts === MAX_PARTS) throw new Error(`an update has more than ${MAX_PARTS} parts`);
    this.#parts++;
    for (const row of rows) this.#rows.push(row);
  }

  /** The rows of an update that has this number of parts. Throws if more or fewer arrived. */
  take(parts: number): readonly TableRow[] {
    if (parts !== this.#parts) throw new Error(`an update has ${parts} parts, and ${this.#parts} arrived`);
    const rows = this.#rows;
    this.#parts = 0;
    this.#rows = [];
    return rows;
  }
}
