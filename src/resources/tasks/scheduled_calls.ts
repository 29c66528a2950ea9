// Calls of the API that schedules make: which there may be, checked as the API would when they are written down, and made as their
// owner when their time has come. See tasks/schedule_runs.ts for their tasks.
import { randomUUID } from 'node:crypto';
import type { Call } from '../../http/request_context.ts';
import { authorizationTarget, authorizedSegments } from '../../http/route_metadata.ts';
import { type Category, inputOfGet } from '../../standard/endpoint.ts';
import { Failure, invalidParameter, violationsFailure, violationsOf } from '../../standard/failure.ts';
import { parametersOf } from '../../standard/parameters.ts';
import { type Route, Routes } from '../../standard/paths.ts';
import { readableFields } from '../../standard/schema/write_only.ts';
import type { CheckCall, ScheduledCall, ScheduledRun } from '../../tasks/schedule.ts';
import type { Context, Services } from '../records/handler_context.ts';

/** Determined by the schedule, or not supported. */
const fieldsOfRun = ['waitSeconds', 'priority', 'after', 'notify', 'expectedVersion'] as const;
/** How long submitting a task may take. */
const submitMsMax = 60_000;

export class ScheduledCalls {
  readonly #categories: readonly Category<Context>[];
  #routes: Routes<Context> | undefined;

  constructor(categories: readonly Category<Context>[]) {
    this.#categories = categories;
  }

  readonly check: CheckCall = ({ on, action, body: given }) => {
    const body = given ?? {};
    for (const field of fieldsOfRun)
      if (Object.hasOwn(body, field))
        throw invalidParameter(
          `/request/body/${field}`,
          'ofRun',
          'is of the run and not of the request: the schedule says it',
        );
    const { endpoint } = this.#route(on, action);
    const isEmpty = Object.keys(body).length === 0;
    const required = () => invalidParameter('/request/body', 'required', `is required by the action ${action}`);
    if (endpoint.bodyRequired && given === undefined) throw required();
    try {
      parametersOf(endpoint).checkBody?.(body);
    } catch (error) {
      throw withPointerPrefix(error, '/request/body');
    }
    if (endpoint.bodyRequired && isEmpty) throw required();
    const shown = { on, action, body: readableFields(body, endpoint.body) };
    return { shown, body };
  };

  /** Submits the task of a scheduled call: runs the handler as the owner of the schedule. */
  async submit(
    services: Services,
    { on, action, body }: ScheduledCall,
    { principal, actor, priority, notify }: ScheduledRun,
  ): Promise<void> {
    const route = this.#route(on, action);
    const { endpoint } = route;
    const known = endpoint.body?.properties ?? {};
    const ofRun = Object.entries({ waitSeconds: 0, priority, notify }).filter(
      ([field, value]) => value !== undefined && Object.hasOwn(known, field),
    );
    const completeBody = { ...body, ...Object.fromEntries(ofRun) };
    parametersOf(endpoint).checkBody?.(completeBody);
    const { reach, objects } = await services.access.authorizer.authorize(
      principal,
      endpoint.permission,
      authorizationTarget(route),
    );
    const call: Call = {
      principal,
      session: { principal, expiresAt: Number.MAX_SAFE_INTEGER, credential: 'token', token: undefined, version: 0 },
      actor,
      requestId: randomUUID(),
      version: route.version,
      reach,
      signal: AbortSignal.timeout(submitMsMax),
      permitted: true,
    };
    const input = { ...inputOfGet(route.path, authorizedSegments(route.segments, objects)), body: completeBody };
    const { outcome } = await endpoint.handle(input, { ...services, call });
    if (outcome !== 'accepted') throw new Error(`the action ${action} of a schedule was done without a task`);
  }

  /** Throws INVALID_PARAMETER. */
  #route(on: string, action: string): Route<Context> {
    this.#routes ??= new Routes(this.#categories);
    const fault = () =>
      invalidParameter('/request/on', 'action', `is not the URI of an object with the action ${action}`);
    let route: Route<Context>;
    try {
      route = this.#routes.resolve('POST', `${on}/${action}`);
    } catch (error) {
      throw error instanceof Failure ? fault() : error;
    }
    if (route.endpoint.action !== action || !route.endpoint.schedulable) throw fault();
    return route;
  }
}

/** Adds the pointer of a nested body to its violations. */
function withPointerPrefix(error: unknown, prefix: string): unknown {
  if (!(error instanceof Failure)) return error;
  const violations = violationsOf(error);
  if (violations.length === 0) return error;
  const moved = violations.map((violation) => ({ ...violation, pointer: `${prefix}${violation.pointer}` }));
  return violationsFailure(error.code, `${moved[0]?.pointer} ${moved[0]?.message}`, moved);
}
