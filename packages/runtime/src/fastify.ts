// Apart from the other entry: a proxy loads that one, and no web framework.

export {
  acceptJsonBodies,
  createHttpApp,
  refuseOtherMethods,
  toHandler,
} from './http/httpApp.ts';
