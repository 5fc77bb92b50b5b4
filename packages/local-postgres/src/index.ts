export { LocalPostgresError } from './errors.ts';
export { type LocalPostgres, type LocalPostgresOptions, startLocalPostgres } from './localPostgres.ts';
