export { ApiError, readApiError } from './apiError.ts';
export { bodyOf, type Client, type ClientOptions, createClient } from './client.ts';
export type { components, operations, paths } from './gen/openapi.ts';
export {
  type BodyOf,
  callOperation,
  type Field,
  type Fields,
  type ItemOf,
  type NamedField,
  namedFields,
  type Operation,
  type ResultOf,
} from './operation.ts';
export { allItems, type PageOf, pages } from './paging.ts';
