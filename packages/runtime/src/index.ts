export {
  acceptJsonBodies,
  createHttpApp,
  type HttpAppOptions,
  malformedJson,
  refuseOtherMethods,
  requireJsonType,
  toHandler,
} from './httpApp.ts';
export { type HttpServer, type HttpServerOptions, listenHttp } from './httpServer.ts';
export { createLogger, LOG_LEVELS, type Logger } from './logger.ts';
export { runService, type ServiceContext } from './runService.ts';
export { readSettings, SettingsError } from './settings.ts';
