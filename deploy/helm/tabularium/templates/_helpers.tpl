{{/* The name of all objects. */}}
{{- define "tabularium.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of one component: a dict of root and component. */}}
{{- define "tabularium.selectorLabels" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "tabularium.labels" -}}
{{ include "tabularium.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "tabularium.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if hasPrefix "@" $tag -}}
{{- printf "%s%s" .Values.image.repository $tag -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "tabularium.scheme" -}}
{{- if .Values.tls.existingSecret }}https{{ else }}http{{ end -}}
{{- end -}}

{{- define "tabularium.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tabularium.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tabularium.secretName" -}}
{{- default (include "tabularium.fullname" .) .Values.secret.existingSecret -}}
{{- end -}}

{{- define "tabularium.storeUrl" -}}
{{- if .Values.postgresql.enabled -}}
{{- printf "postgres://tabularium:%s@%s-postgresql:5432/tabularium?sslmode=disable" (.Values.postgresql.password | urlquery) (include "tabularium.fullname" .) -}}
{{- else -}}
{{- .Values.secret.storeUrl -}}
{{- end -}}
{{- end -}}

{{/* The servers of the bundled ClickHouse. */}}
{{- define "tabularium.clickhouseHosts" -}}
{{- $name := printf "%s-clickhouse" (include "tabularium.fullname" .) -}}
{{- $hosts := list -}}
{{- range $i := until (int (mul (int .Values.clickhouse.shards) (int .Values.clickhouse.replicas))) -}}
{{- $hosts = append $hosts (printf "%s-%d.%s.%s.svc" $name $i $name $.Release.Namespace) -}}
{{- end -}}
{{- join "," $hosts -}}
{{- end -}}

{{/* What no rendered file could express. */}}
{{- define "tabularium.check" -}}
{{- if and (not .Values.tls.existingSecret) (not .Values.tls.insecure) -}}
{{- fail "set tls.existingSecret to a Secret with a certificate, or tls.insecure to true where the network is encrypted otherwise" -}}
{{- end -}}
{{- if .Values.secret.existingSecret -}}
{{- if or .Values.secret.storeUrl .Values.secret.secretKey .Values.postgresql.enabled -}}
{{- fail "with secret.existingSecret, secret.storeUrl, secret.secretKey and postgresql.enabled must not be set" -}}
{{- end -}}
{{- else -}}
{{- if and .Values.postgresql.enabled .Values.secret.storeUrl -}}
{{- fail "with postgresql.enabled, secret.storeUrl must not be set" -}}
{{- end -}}
{{- if not (include "tabularium.storeUrl" .) -}}
{{- fail "set secret.existingSecret, or secret.storeUrl and secret.secretKey" -}}
{{- end -}}
{{- if not .Values.secret.secretKey -}}
{{- fail "set secret.secretKey (openssl rand -base64 32), or secret.existingSecret" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.postgresql.enabled (not .Values.postgresql.password) -}}
{{- fail "set postgresql.password" -}}
{{- end -}}
{{- if and .Values.clickhouse.enabled (not (and .Values.clickhouse.password .Values.clickhouse.clusterSecret)) -}}
{{- fail "set clickhouse.password and clickhouse.clusterSecret" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.clients) -}}
{{- if or .Values.ingress.enabled .Values.serviceMonitor.enabled (ne .Values.service.type "ClusterIP") -}}
{{- fail "set networkPolicy.clients to the peers that ingress, serviceMonitor or service.type let in (the Ingress controller, Prometheus, the load balancer): without them only pods of the namespace may connect; or set networkPolicy.enabled to false" -}}
{{- end -}}
{{- end -}}
{{- $own := list "host" "port" "dataDir" "store" "config" "insecure" "internalUrl" "secretKeyFile" "tlsCertFile" "tlsKeyFile" -}}
{{- range $key, $_ := .Values.settings -}}
{{- if has $key $own -}}
{{- fail (printf "settings.%s is set by the chart" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
