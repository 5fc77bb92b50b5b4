import { crudRoutes } from '../../shared/crudRoutes.ts';
import type { App } from '../../shared/fastify.ts';
import { NewProfile, Profile, ProfileChanges, ProfileQuery } from './profiles.schemas.ts';
import {
  changeProfile,
  createProfile,
  deleteProfile,
  existingProfile,
  listProfiles,
  type ProfileDeps,
  readProfile,
} from './profiles.service.ts';

export function profileRoutes(app: App, deps: ProfileDeps): void {
  crudRoutes(app, {
    path: '/profiles',
    idParam: 'profile_id',
    schemas: { item: Profile, create: NewProfile, update: ProfileChanges, list: ProfileQuery },
    assertExists: (id) => existingProfile(deps.db, id),
    create: {
      operationId: 'createProfile',
      summary: 'Create a routing profile',
      run: (caller, input) => createProfile(deps, caller, input),
    },
    list: {
      operationId: 'listProfiles',
      summary: 'List routing profiles by name',
      run: (query) => listProfiles(deps, query),
    },
    get: {
      operationId: 'getProfile',
      summary: 'Retrieve a routing profile',
      run: (id) => readProfile(deps, id),
    },
    update: {
      operationId: 'updateProfile',
      summary: 'Update a routing profile',
      run: (caller, id, changes, assertMatch) => changeProfile(deps, caller, id, changes, assertMatch),
    },
    delete: {
      operationId: 'deleteProfile',
      summary: 'Delete a routing profile',
      run: (caller, id, assertMatch) => deleteProfile(deps, caller, id, assertMatch),
    },
  });
}
