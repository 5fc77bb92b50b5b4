import { decimalUsd } from '@weighbridge/domain';
import { type Charge, FOCUS_COLUMNS, type FocusColumn } from './focusColumns.ts';
import { record, text } from './spendCsv.ts';

/** The dataset in CSV: its header comes with the first rows, or alone if there are none. */
export async function* focusCsv(batches: AsyncIterable<readonly Charge[]>): AsyncGenerator<string> {
  let head = record(FOCUS_COLUMNS.map(([name]) => name));
  for await (const charges of batches) {
    yield head +
      charges.map((charge) => record(FOCUS_COLUMNS.map((column) => field(column, charge)))).join('');
    head = '';
  }
  if (head !== '') yield head;
}

function field(column: FocusColumn, charge: Charge): string {
  switch (column[1]) {
    case 'text':
      return text(column[2](charge) ?? '');
    case 'time':
      return column[2](charge).toISOString().replace('.000Z', 'Z');
    case 'decimal':
      return decimalUsd(column[2](charge));
    case 'count':
      return String(column[2](charge));
  }
}
