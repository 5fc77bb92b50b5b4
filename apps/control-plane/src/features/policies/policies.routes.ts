import { crudRoutes } from '../../shared/crudRoutes.ts';
import type { App } from '../../shared/fastify.ts';
import { NewPolicy, Policy, PolicyChanges, PolicyQuery } from './policies.schemas.ts';
import {
  changePolicy,
  createPolicy,
  deletePolicy,
  existingPolicy,
  listPolicies,
  type PolicyAdminDeps,
  readPolicy,
} from './policyAdmin.service.ts';
import { withWarnings } from './policyWarnings.service.ts';

export function policyRoutes(app: App, deps: PolicyAdminDeps): void {
  crudRoutes(app, {
    path: '/policies',
    idParam: 'policy_id',
    schemas: { item: Policy, create: NewPolicy, update: PolicyChanges, list: PolicyQuery },
    assertExists: (id) => existingPolicy(deps.db, id),
    unversioned: ['warnings'],
    createsOnce: true,
    create: {
      operationId: 'createPolicy',
      summary: 'Create a policy',
      run: async (caller, input, assertMatch) =>
        await withWarnings(deps.db, await createPolicy(deps, caller, input, assertMatch)),
    },
    list: {
      operationId: 'listPolicies',
      summary: 'List policies, newest first',
      run: (query) => listPolicies(deps, query),
    },
    get: {
      operationId: 'getPolicy',
      summary: 'Retrieve a policy',
      run: (id) => readPolicy(deps, id),
    },
    update: {
      operationId: 'updatePolicy',
      summary: 'Update a policy',
      run: async (caller, id, changes, assertMatch) =>
        await withWarnings(deps.db, await changePolicy(deps, caller, id, changes, assertMatch)),
    },
    delete: {
      operationId: 'deletePolicy',
      summary: 'Delete a policy',
      run: (caller, id, assertMatch) => deletePolicy(deps, caller, id, assertMatch),
    },
  });
}
