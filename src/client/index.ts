// The typed client of the REST API; it runs in browsers and in Node.js, and depends on nothing else.
export type { TaskResultOf } from '../api/tasks/task_types.ts';
export { type Client, createClient } from './client.ts';
export { type DescribedCall, describeCall } from './described_call.ts';
export type { DownloadOptions } from './download.ts';
export { errors, TabulariumError } from './errors.ts';
export { ExactNumber } from './json/exact_json.ts';
export { List, type Page } from './list.ts';
export { type Column, Query, type QueryOptions, type ResultPage, type Row } from './query.ts';
export { Submitted, Task, type TaskRecord, type WaitOptions } from './task.ts';
export type { ClientOptions } from './transport.ts';
export type { CallOptions, CreateOptions } from './types.ts';
export type { TransferProgress, UploadOptions, UploadRecord, UploadSource } from './upload.ts';
export type { Value } from './values.ts';
