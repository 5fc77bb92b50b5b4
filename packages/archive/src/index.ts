export { Archive, type ArchiveOptions, openArchive } from './archive.ts';
export {
  ARCHIVE_COLUMNS,
  COST,
  LEDGER_COLUMNS,
  nanoFromDecimal,
  parseRow,
  READ_VALUES,
  STORED_VALUES,
} from './columns.ts';
export type { DayWriter, FileBounds, StoredRow } from './dayWriter.ts';
export { type DuckSql, duck } from './duck.ts';
export { type Row, StatementTooLargeError } from './engine.ts';
export {
  type ArchivedFile,
  type CounterSum,
  type CounterSums,
  countersName,
  type DayManifest,
  dayFolder,
  digestSums,
  manifestJson,
  manifestName,
} from './manifest.ts';
export { type ArchiveStore, ArchiveUnavailableError, DamagedFileError } from './store.ts';
export type { ReadFaults } from './watchReads.ts';
