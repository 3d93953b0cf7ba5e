"""The fields of pod templates, to find misspelt ones: a table of Kubernetes 1.37. A decider.

    list(unknown_in({"spec": {"contaners": []}}, "spec.worker.template"))     [UnknownField(path="...spec.contaners", meant="containers")]

Templates may have fields of a newer Kubernetes, so that an unknown one is a warning and reaches the pods as it is.
"""

from __future__ import annotations

from umiak.core.nearest import nearest
from umiak.core.shown import one_line
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASE = "1.37"
TEMPLATE = "PodTemplateSpec"
MOST = 10
"""Fields of one template that are told."""
LONGEST_NAME = 60

# Each line is a type with its fields, each of which may have a type. Lists and objects are not told apart.
_TABLE = """\
AWSElasticBlockStoreVolumeSource fsType partition readOnly volumeID
Affinity nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
AppArmorProfile localhostProfile type
AzureDiskVolumeSource cachingMode diskName diskURI fsType kind readOnly
AzureFileVolumeSource readOnly secretName shareName
CSIVolumeSource driver fsType nodePublishSecretRef:LocalObjectReference readOnly volumeAttributes
Capabilities add drop
CephFSVolumeSource monitors path readOnly secretFile secretRef:LocalObjectReference user
CinderVolumeSource fsType readOnly secretRef:LocalObjectReference volumeID
ClusterTrustBundleProjection labelSelector:LabelSelector name optional path signerName user
ConfigMapEnvSource name optional
ConfigMapKeySelector key name optional
ConfigMapProjection items:KeyToPath name optional
ConfigMapVolumeSource defaultMode defaultUser items:KeyToPath name optional
Container args command env:EnvVar envFrom:EnvFromSource image imagePullPolicy lifecycle:Lifecycle livenessProbe:Probe name ports:ContainerPort readinessProbe:Probe resizePolicy:ContainerResizePolicy resources:ResourceRequirements restartPolicy restartPolicyRules:ContainerRestartRule securityContext:SecurityContext startupProbe:Probe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices:VolumeDevice volumeMounts:VolumeMount workingDir
ContainerPort containerPort hostIP hostPort name protocol
ContainerResizePolicy resourceName restartPolicy
ContainerRestartRule action exitCodes:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes operator values
DownwardAPIProjection items:DownwardAPIVolumeFile
DownwardAPIVolumeFile fieldRef:ObjectFieldSelector mode path resourceFieldRef:ResourceFieldSelector user
DownwardAPIVolumeSource defaultMode defaultUser items:DownwardAPIVolumeFile
EmptyDirVolumeSource medium mode sizeLimit
EnvFromSource configMapRef:ConfigMapEnvSource prefix secretRef:SecretEnvSource
EnvVar name value valueFrom:EnvVarSource
EnvVarSource configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
EphemeralContainer args command env:EnvVar envFrom:EnvFromSource image imagePullPolicy lifecycle:Lifecycle livenessProbe:Probe name ports:ContainerPort readinessProbe:Probe resizePolicy:ContainerResizePolicy resources:ResourceRequirements restartPolicy restartPolicyRules:ContainerRestartRule securityContext:SecurityContext startupProbe:Probe stdin stdinOnce targetContainerName terminationMessagePath terminationMessagePolicy tty volumeDevices:VolumeDevice volumeMounts:VolumeMount workingDir
EphemeralVolumeSource volumeClaimTemplate:PersistentVolumeClaimTemplate
EvictionResponder name priority
ExecAction command
FCVolumeSource fsType lun readOnly targetWWNs wwids
FileKeySelector key optional path volumeName
FlexVolumeSource driver fsType options readOnly secretRef:LocalObjectReference
FlockerVolumeSource datasetName datasetUUID
GCEPersistentDiskVolumeSource fsType partition pdName readOnly
GRPCAction mode port service
GitRepoVolumeSource directory repository revision
GlusterfsVolumeSource endpoints path readOnly
HTTPGetAction host httpHeaders:HTTPHeader path port protocol scheme
HTTPHeader name value
HostAlias hostnames ip
HostPathVolumeSource path type
ISCSIVolumeSource chapAuthDiscovery chapAuthSession fsType initiatorName iqn iscsiInterface lun portals readOnly secretRef:LocalObjectReference targetPortal
ImageVolumeSource pullPolicy reference
KeyToPath key mode path user
LabelSelector matchExpressions:LabelSelectorRequirement matchLabels
LabelSelectorRequirement key operator values
Lifecycle postStart:LifecycleHandler preStop:LifecycleHandler stopSignal
LifecycleHandler exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
LocalObjectReference name
NFSVolumeSource path readOnly server
NodeAffinity preferredDuringSchedulingIgnoredDuringExecution:PreferredSchedulingTerm requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
NodeSelector nodeSelectorTerms:NodeSelectorTerm
NodeSelectorRequirement key operator values
NodeSelectorTerm matchExpressions:NodeSelectorRequirement matchFields:NodeSelectorRequirement
ObjectFieldSelector apiVersion fieldPath
ObjectMeta annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation labels managedFields name namespace ownerReferences:OwnerReference resourceVersion selfLink uid
OwnerReference apiVersion blockOwnerDeletion controller kind name uid
PersistentVolumeClaimSpec accessModes dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference resources:VolumeResourceRequirements selector:LabelSelector storageClassName volumeAttributesClassName volumeMode volumeName
PersistentVolumeClaimTemplate metadata:ObjectMeta spec:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource claimName readOnly
PhotonPersistentDiskVolumeSource fsType pdID
PodAffinity preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm
PodAffinityTerm labelSelector:LabelSelector matchLabelKeys mismatchLabelKeys namespaceSelector:LabelSelector namespaces topologyKey
PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm
PodCertificateProjection certificateChainPath credentialBundlePath keyPath keyType maxExpirationSeconds signerName user userAnnotations
PodDNSConfig nameservers options:PodDNSConfigOption searches
PodDNSConfigOption name value
PodOS name
PodReadinessGate conditionType
PodResourceClaim name resourceClaimName resourceClaimTemplateName
PodSchedulingGate name
PodSchedulingGroup podGroupName
PodSecurityContext appArmorProfile:AppArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile supplementalGroups supplementalGroupsPolicy sysctls:Sysctl windowsOptions:WindowsSecurityContextOptions
PodSpec activeDeadlineSeconds affinity:Affinity automountServiceAccountToken containers:Container dnsConfig:PodDNSConfig dnsPolicy enableServiceLinks ephemeralContainers:EphemeralContainer evictionResponders:EvictionResponder hostAliases:HostAlias hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets:LocalObjectReference initContainers:Container nodeName nodeSelector os:PodOS overhead preemptionPolicy priority priorityClassName readinessGates:PodReadinessGate resourceClaims:PodResourceClaim resources:ResourceRequirements restartPolicy runtimeClassName schedulerName schedulingGates:PodSchedulingGate schedulingGroup:PodSchedulingGroup securityContext:PodSecurityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations:Toleration topologySpreadConstraints:TopologySpreadConstraint volumes:Volume
PodTemplateSpec metadata:ObjectMeta spec:PodSpec
PortworxVolumeSource fsType readOnly volumeID
PreferredSchedulingTerm preference:NodeSelectorTerm weight
Probe exec:ExecAction failureThreshold grpc:GRPCAction httpGet:HTTPGetAction initialDelaySeconds periodSeconds successThreshold tcpSocket:TCPSocketAction terminationGracePeriodSeconds timeoutSeconds
ProjectedVolumeSource defaultMode defaultUser sources:VolumeProjection
QuobyteVolumeSource group readOnly registry tenant user volume
RBDVolumeSource fsType image keyring monitors pool readOnly secretRef:LocalObjectReference user
ResourceClaim name request
ResourceFieldSelector containerName divisor resource
ResourceRequirements claims:ResourceClaim limits requests
SELinuxOptions level role type user
ScaleIOVolumeSource fsType gateway protectionDomain readOnly secretRef:LocalObjectReference sslEnabled storageMode storagePool system volumeName
SeccompProfile localhostProfile type
SecretEnvSource name optional
SecretKeySelector key name optional
SecretProjection items:KeyToPath name optional
SecretVolumeSource defaultMode defaultUser items:KeyToPath optional secretName
SecurityContext allowPrivilegeEscalation appArmorProfile:AppArmorProfile capabilities:Capabilities privileged procMount readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile windowsOptions:WindowsSecurityContextOptions
ServiceAccountTokenProjection audience expirationSeconds path user
SleepAction seconds
StorageOSVolumeSource fsType readOnly secretRef:LocalObjectReference volumeName volumeNamespace
Sysctl name value
TCPSocketAction host port
Toleration effect key operator tolerationSeconds value
TopologySpreadConstraint labelSelector:LabelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy topologyKey whenUnsatisfiable
TypedLocalObjectReference apiGroup kind name
TypedObjectReference apiGroup kind name namespace
Volume awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource configMap:ConfigMapVolumeSource csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource flexVolume:FlexVolumeSource flocker:FlockerVolumeSource gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource iscsi:ISCSIVolumeSource name nfs:NFSVolumeSource persistentVolumeClaim:PersistentVolumeClaimVolumeSource photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource scaleIO:ScaleIOVolumeSource secret:SecretVolumeSource storageos:StorageOSVolumeSource vsphereVolume:VsphereVirtualDiskVolumeSource
VolumeDevice devicePath name
VolumeMount bindMountOptions mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr
VolumeProjection clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection secret:SecretProjection serviceAccountToken:ServiceAccountTokenProjection
VolumeResourceRequirements limits requests
VsphereVirtualDiskVolumeSource fsType storagePolicyID storagePolicyName volumePath
WeightedPodAffinityTerm podAffinityTerm:PodAffinityTerm weight
WindowsSecurityContextOptions gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName
"""


def _types() -> dict[str, dict[str, str]]:
    types = {}
    for line in _TABLE.splitlines():
        name, *fields = line.split()
        types[name] = {field: kind for field, _, kind in (each.partition(":") for each in fields)}
    return types


TYPES = _types()
"""By type: its fields, and their types, empty where there is nothing to look into."""


@value
class UnknownField:
    """A field that pods of this release do not have."""

    path: str
    meant: str = ""
    """The name that was probably meant."""


def unknown_in(template: object, path: str) -> list[UnknownField]:
    """What a template has that is no field, the first few."""
    names = []
    for each in _unknown(template, TEMPLATE, path):
        names.append(each)
        if len(names) == MOST:
            break
    return names


def _unknown(item: object, kind: str, path: str) -> Iterator[UnknownField]:
    if isinstance(item, list):
        for number, each in enumerate(item):
            if isinstance(each, dict):
                yield from _unknown(each, kind, f"{path}[{number}]")
    elif isinstance(item, dict):
        known = TYPES[kind]
        for name, each in item.items():
            inside = f"{path}.{one_line(str(name), LONGEST_NAME)}"
            if name not in known:
                yield UnknownField(path=inside, meant=nearest(str(name), known) or "")
            elif known[name]:
                yield from _unknown(each, known[name], inside)
