export { findExpiringKeys } from './keys.repository.ts';
