import { crudRoutes } from '../../shared/crudRoutes.ts';
import type { App } from '../../shared/fastify.ts';
import { Alias, AliasChanges, AliasQuery, NewAlias } from './aliases.schemas.ts';
import {
  type AliasDeps,
  changeAlias,
  createAlias,
  deleteAlias,
  existingAlias,
  listAliases,
  readAlias,
} from './aliases.service.ts';

export function aliasRoutes(app: App, deps: AliasDeps): void {
  crudRoutes(app, {
    path: '/aliases',
    idParam: 'alias_id',
    schemas: { item: Alias, create: NewAlias, update: AliasChanges, list: AliasQuery },
    unversioned: ['usable', 'unusable_reason'],
    assertExists: (id) => existingAlias(deps.db, id),
    create: {
      operationId: 'createAlias',
      summary: 'Create an alias of a model or a profile',
      run: (caller, input) => createAlias(deps, caller, input),
    },
    list: {
      operationId: 'listAliases',
      summary: 'List aliases by name',
      run: (query) => listAliases(deps, query),
    },
    get: {
      operationId: 'getAlias',
      summary: 'Retrieve an alias',
      run: (id) => readAlias(deps, id),
    },
    update: {
      operationId: 'updateAlias',
      summary: 'Update an alias',
      run: (caller, id, changes, assertMatch) => changeAlias(deps, caller, id, changes, assertMatch),
    },
    delete: {
      operationId: 'deleteAlias',
      summary: 'Delete an alias',
      run: (caller, id, assertMatch) => deleteAlias(deps, caller, id, assertMatch),
    },
  });
}
